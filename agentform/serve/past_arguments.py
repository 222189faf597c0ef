"""Arguments that some model wrote once: history, which is read as far as it goes and refused never."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

from pydantic_core import from_json

from agentform._util.text import unicode_text
from agentform.errors import InvalidInput
from agentform.messages import JsonValue
from agentform.schema.json_text import dumps, to_jsonable

__all__ = ["past_arguments"]

_UNREAD = "malformed"
"""The key under which the model sees text that is no object."""


def past_arguments(said: Any) -> dict[str, JsonValue]:
    """The arguments of a past call: of a text that breaks off what stands there, of several values the first.

    Text that holds no object is kept whole, under the key `malformed`, so that the model sees what was wrong with it.
    """
    text = said.strip() if isinstance(said, str) else ""
    value = _value(text) if isinstance(said, str) else said
    if isinstance(value, str) and value.lstrip().startswith("{"):  # encoded twice
        value = _value(value)
    if value is None and text in ("", "null"):
        return {}
    if isinstance(value, Mapping):
        try:
            return _checked(cast("Mapping[str, Any]", value))
        except InvalidInput:
            pass
    return {_UNREAD: unicode_text(text or str(said))}


def _value(text: str) -> Any:
    """The first JSON value of a text; of one that breaks off, its beginning; `None` where there is none."""
    try:
        return json.JSONDecoder().raw_decode(text)[0]
    except (ValueError, RecursionError):
        pass
    try:
        return from_json(text, allow_partial="trailing-strings")
    except ValueError:
        return None


def _checked(value: Mapping[str, Any]) -> dict[str, JsonValue]:
    """What can be written again.

    Raises:
        InvalidInput: it is nested too deeply, or holds a number of too many digits.
    """
    made = to_jsonable(dict(value))
    dumps(made)
    return made if isinstance(made, dict) else {}
