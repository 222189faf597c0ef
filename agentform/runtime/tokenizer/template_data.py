"""Messages and tools as a chat template may see them: plain data under the names that templates read."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping, Sequence
from typing import Any, cast

__all__ = ["Held", "held", "inert", "template_message"]

_REASONING = ("reasoning_content", "thinking", "reasoning")
"""Keys that a message's reasoning may stand under; the first that holds any counts."""
_SCALARS = ((str, str.__str__), (int, int.__int__), (float, float.__float__))


def template_message(message: Mapping[str, Any]) -> dict[str, Any]:
    """`message` without the keys that hold `None`, its reasoning under both names that templates ask for."""
    data: dict[str, Any] = inert({key: value for key, value in message.items() if value is not None})
    reasoning = next((data[key] for key in _REASONING if data.get(key) is not None), None)
    return data if reasoning is None else {"thinking": reasoning, **data, "reasoning_content": reasoning}


class Held(list[Any]):
    """A list that a template was given and may not change, as it may change lists of its own."""


Held.__name__ = "list"  # errors of a template name the type


def held(value: Any) -> Any:
    """`value`, made of plain types, with its lists as such that a template may not change."""
    if isinstance(value, dict):
        return {key: held(item) for key, item in cast("dict[Any, Any]", value).items()}
    return Held(map(held, cast("list[Any]", value))) if isinstance(value, list) else value


def inert(value: Any) -> Any:
    """`value` rebuilt of plain types; what is none of them becomes its type's name, so that no method can be called.

    An enumeration's member becomes its value, a dataclass or pydantic model a dict, a NumPy scalar Python's.
    """
    if value is None or type(value) in (str, int, float, bool):
        return value
    for base, as_base in _SCALARS:
        if isinstance(value, base):
            return as_base(cast("Any", value))
    if isinstance(value, Mapping):
        return {inert(key): inert(item) for key, item in cast("Mapping[Any, Any]", value).items()}
    if isinstance(value, list | tuple):
        items = [inert(item) for item in cast("Sequence[Any]", value)]
        return items if isinstance(value, list) else tuple(items)
    return _inert_object(value)


def _inert_object(value: Any) -> Any:
    numpy = sys.modules.get("numpy")  # where it was never imported, no value is of its types
    if numpy is not None and isinstance(value, numpy.generic):
        return inert(value.item())
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: inert(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if callable(dump := getattr(value, "model_dump", None)):
        return inert(dump())
    return f"<{type(value).__name__}>"
