"""Calls as text, byte for byte what the model's chat template writes for them in later turns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agentform.decoding.formats.types import CDATA_CLOSE, CDATA_OPEN, ArgumentStyle, Elements, Slot, ToolCallFormat
from agentform.decoding.formats.values import sorted_like_templates
from agentform.messages import JsonValue
from agentform.schema.json_text import json_type

__all__ = ["WrittenCall", "arguments_text", "call_text", "calls_text", "element_text", "value_text"]


@dataclass(frozen=True, kw_only=True)
class WrittenCall:
    """A call to be written."""

    name: str
    arguments: Mapping[str, JsonValue]
    id: str = ""


def calls_text(
    format: ToolCallFormat, calls: Sequence[WrittenCall], *, after_text: bool = False, first_index: int = 0
) -> str:
    """All calls of a turn, with what stands before the first; `first_index` is the number of calls before them."""
    layout = format.layout
    before = layout.before_after_text if after_text else layout.before
    written = [call_text(format, call, first_index + at) for at, call in enumerate(calls)]
    return before + layout.section_open + layout.between.join(written) + layout.section_close


def call_text(format: ToolCallFormat, call: WrittenCall, index: int = 0) -> str:
    """One call, without what stands around the calls of a turn."""
    slots = {
        Slot.NAME: call.name,
        Slot.ID: call.id,
        Slot.INDEX: str(format.layout.first_index + index),
        Slot.ARGUMENTS: arguments_text(format.arguments, call.arguments),
    }
    return "".join(piece if isinstance(piece, str) else slots[piece] for piece in format.layout.call)


def arguments_text(style: ArgumentStyle, arguments: Mapping[str, JsonValue]) -> str:
    """The arguments in the style."""
    if not isinstance(style, Elements):
        return style.values.write(arguments)
    items = sorted_like_templates(arguments) if style.sort_keys else arguments
    if not style.nulls:
        items = {key: value for key, value in items.items() if value is not None}
    return style.separator.join(element_text(style, key, value) for key, value in items.items())


def element_text(style: Elements, key: str, value: JsonValue) -> str:
    """One argument."""
    close = style.close_of(key, is_string=isinstance(value, str))
    return f"{style.open}{key}{style.middle_of(json_type(value))}{value_text(style, value)}{close}"


def value_text(style: Elements, value: JsonValue) -> str:
    """A value without what stands around it."""
    if isinstance(value, str):
        return _string_text(style, value)
    if isinstance(value, Mapping):
        return style.objects.write(value)
    if isinstance(value, list | tuple):
        return style.lists.write(value)
    return style.scalars.write(value)


def _string_text(style: Elements, value: str) -> str:
    if style.string_values is not None:
        return style.string_values.write(value)[1:-1]
    return f"{CDATA_OPEN}{value}{CDATA_CLOSE}" if any(mark in value for mark in style.cdata) else value
