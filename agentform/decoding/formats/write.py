"""Calls as text, byte for byte what the model's chat template writes for them in later turns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agentform.decoding.formats.types import ArgumentStyle, Elements, Slot, ToolCallFormat
from agentform.decoding.formats.values import sorted_like_templates
from agentform.messages import JsonValue

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
        Slot.INDEX: str(index),
        Slot.ARGUMENTS: arguments_text(format.arguments, call.arguments),
    }
    return "".join(piece if isinstance(piece, str) else slots[piece] for piece in format.layout.call)


def arguments_text(style: ArgumentStyle, arguments: Mapping[str, JsonValue]) -> str:
    """The arguments in the style."""
    if not isinstance(style, Elements):
        return style.values.write(arguments)
    items = sorted_like_templates(arguments) if style.sort_keys else arguments
    return style.separator.join(element_text(style, key, value) for key, value in items.items())


def element_text(style: Elements, key: str, value: JsonValue) -> str:
    """One argument."""
    middle, close = (style.string_middle, style.string_close) if isinstance(value, str) else (style.middle, style.close)
    return f"{style.open}{key}{middle}{value_text(style, value)}{close}"


def value_text(style: Elements, value: JsonValue) -> str:
    """A value without what stands around it."""
    if isinstance(value, str):
        return value if style.string_values is None else style.string_values.write(value)[1:-1]
    if isinstance(value, Mapping):
        return style.objects.write(value)
    if isinstance(value, list | tuple):
        return style.lists.write(value)
    return style.scalars.write(value)
