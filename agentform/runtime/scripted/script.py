"""What a scripted model says: its turns and forms, and what they answer at a place in a JSON text."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from agentform.errors import ScriptMismatch
from agentform.messages import JsonValue

__all__ = [
    "Call",
    "Fail",
    "Fill",
    "Say",
    "ScriptedStep",
    "ScriptedTurn",
    "UnfinishedValue",
    "scripted_value",
    "unfinished_value",
]

_Arguments: TypeAlias = Mapping[str, JsonValue]


@dataclass(frozen=True)
class Say:
    """A turn that ends in free text."""

    text: str
    name: str = field(default="answer", kw_only=True)
    """What stands for "no tool" among the names that are scored; `answer_` where a tool is called `answer`."""
    delay_s: float = field(default=0.0, kw_only=True)
    """Seconds that each of the turn's requests takes."""


@dataclass(frozen=True)
class Call:
    """A turn that calls a tool, `text` being the free text before the call.

    Closed arguments are chosen and free ones written as given. Each that is asked for must be given, those with
    defaults too; one that may be null or be left out is so where it is not given.
    A union whose arms are told apart by name asks for the name under the key `"<key> type"`.
    """

    name: str
    arguments: _Arguments = field(default_factory=dict[str, JsonValue])
    text: str = field(default="", kw_only=True)
    repairs: Sequence[_Arguments] = field(default=(), kw_only=True)
    """What is written instead when a free argument is asked for again: one mapping for each further time."""
    also: Sequence[Call | Say] = field(default=(), kw_only=True)
    """Further calls of the same turn, for agents whose limits allow them.

    The turn ends after the last; where a tool is called `answer`, write ``Say("", name="answer_")`` after it.
    """
    delay_s: float = field(default=0.0, kw_only=True)
    """Seconds that each of the turn's requests takes."""


@dataclass(frozen=True)
class Fail:
    """A turn at which the engine raises an error."""

    error: Exception
    delay_s: float = field(default=0.0, kw_only=True)


@dataclass(frozen=True)
class Fill:
    """A form as `fill` asks for it, or an agent for an answer that is an object.

    Not a turn: it serves every prompt that holds the text `about`.
    """

    about: str
    value: JsonValue
    repairs: Sequence[JsonValue] = field(default=(), kw_only=True)
    """As for `Call`."""
    delay_s: float = field(default=0.0, kw_only=True)
    """Seconds that each request takes."""


ScriptedTurn: TypeAlias = Say | Call | Fail
ScriptedStep: TypeAlias = Say | Call | Fail | Fill

_TOKEN = re.compile(
    r'(?P<string>"(?:[^"\\]|\\.)*\\?(?:"|\Z))(?P<colon>\s*:)?|(?P<open>[{\[])|(?P<close>[}\]])', re.DOTALL
)


@dataclass(frozen=True, kw_only=True)
class UnfinishedValue:
    """The end of an unfinished JSON text: the keys that lead there, and what is written of the value."""

    path: tuple[str, ...]
    written: str
    num_before: int = 0
    """Objects that were complete before it."""

    def __str__(self) -> str:
        return "/".join(self.path) or "the value itself"


def unfinished_value(text: str) -> UnfinishedValue:
    """Where a JSON text breaks off; text before its first bracket or string is passed over."""
    keys: list[str] = []
    start = num_before = 0
    for token in _TOKEN.finditer(text):
        if token["open"]:
            keys.append("")
        elif token["close"]:
            del keys[-1:]
            num_before += not keys
        elif token["colon"] and keys:
            keys[-1], start = json.loads(token["string"]), token.end()
    return UnfinishedValue(path=tuple(key for key in keys if key), written=text[start:], num_before=num_before)


def scripted_value(step: ScriptedStep, place: UnfinishedValue, time: int = 0) -> JsonValue:
    """What a step answers at a place; `time` counts how often it was asked to write it before.

    Raises:
        ScriptMismatch: the step has no answer there.
    """
    path = place.path
    if isinstance(step, Call):
        step = [step, *step.also, Say("")][min(place.num_before, len(step.also) + 1)]
    if isinstance(step, Fill):
        return _latest([step.value, *step.repairs], path, time, step)
    if path in ((), ("name",)) and isinstance(step, Say | Call):
        return step.name
    if path[:1] == ("arguments",) and isinstance(step, Call):
        return _latest([step.arguments, *step.repairs], path[1:], time, step)
    raise ScriptMismatch(f"asked for {place}, which {step!r} does not answer")


def _latest(values: Sequence[JsonValue], path: tuple[str, ...], time: int, step: ScriptedStep) -> JsonValue:
    """The newest of the first `time + 1` values that has something at `path`."""
    for value in reversed(values[: time + 1]):
        try:
            return _at(value, path)
        except KeyError:
            continue
    raise ScriptMismatch(f"asked for {'/'.join(path)!r}, which is not in {step!r}")


def _at(value: Any, path: tuple[str, ...]) -> JsonValue:
    for key in path:
        if not isinstance(value, Mapping):
            raise KeyError(key)
        value = value[key]
    return value
