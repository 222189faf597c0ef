"""A call that a model wrote as prose: bare or fenced JSON in its free text, taken only if it validates."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from json import JSONDecodeError, JSONDecoder
from typing import Any, cast

from agentform.errors import InvalidInput
from agentform.messages import JsonValue
from agentform.schema.json_text import loads
from agentform.schema.target import Target

__all__ = ["Recovered", "recover", "text_before_call"]

_ARGUMENTS = ("arguments", "parameters")
_CALL = re.compile(r'\{\s*"name"\s*:\s*"[^"]*"\s*,\s*"(?:arguments|parameters)"\s*:')
_FENCE = re.compile(r"```[a-zA-Z_]*\s*$")


@dataclass(frozen=True, kw_only=True)
class Recovered:
    """A call found in free text."""

    name: str
    arguments: Mapping[str, JsonValue]
    content: str
    """The free text before the call, its fence taken off."""


def recover(content: str, targets: Mapping[str, Target]) -> Recovered | None:
    """The first object in `content` that names a known tool and holds arguments which its true schema accepts.

    The object has nothing beside the name and `arguments` or `parameters`. Anything else stays text.
    """
    for start, text in _objects(content):
        found = _call(text, targets)
        if found is not None:
            name, arguments = found
            return Recovered(name=name, arguments=arguments, content=_FENCE.sub("", content[:start]).rstrip())
    return None


def text_before_call(content: str) -> str | None:
    """The text before what is written as a call, whatever it names and holds and whether it is whole; `None`: none is.

    A model that was trained for calls and writes one in other marks means to call, also where it makes up a name.
    """
    found = _CALL.search(content)
    return None if found is None else _FENCE.sub("", content[: found.start()]).rstrip()


def _objects(content: str) -> Iterator[tuple[int, str]]:
    """Where JSON objects stand in the text, outermost first."""
    decoder, at = JSONDecoder(), content.find("{")
    while at >= 0:
        try:
            _, end = decoder.raw_decode(content, at)
        except (JSONDecodeError, RecursionError):
            at = content.find("{", at + 1)
            continue
        yield at, content[at:end]
        at = content.find("{", end)


def _call(text: str, targets: Mapping[str, Target]) -> tuple[str, Mapping[str, JsonValue]] | None:
    try:
        value: Any = loads(text)
    except InvalidInput:
        return None
    key = next((key for key in _ARGUMENTS if key in value), None)
    name = value.get("name")
    if key is None or set(value) != {"name", key} or name not in targets or not isinstance(value[key], dict):
        return None
    arguments = cast("dict[str, JsonValue]", value[key])
    return None if targets[name].validator.check(arguments) else (str(name), arguments)
