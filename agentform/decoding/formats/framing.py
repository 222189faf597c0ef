"""The fixed texts around one call's name and arguments, in the order in which a turn writes them."""

from __future__ import annotations

from dataclasses import dataclass

from agentform.decoding.formats.types import Slot, ToolCallFormat

__all__ = ["CallFraming", "before_calls"]


@dataclass(frozen=True, kw_only=True)
class CallFraming:
    """What stands around the arguments of a call with this id and number."""

    format: ToolCallFormat
    name: str = ""
    id: str = ""
    index: int = 0

    @property
    def before_name(self) -> str:
        """From the beginning of the call to its name."""
        return self._text(0, self._at(Slot.NAME))

    @property
    def after_name(self) -> str:
        """What follows the name, up to the next thing that differs from call to call."""
        after = self.format.layout.call[self._at(Slot.NAME) + 1]
        return after if isinstance(after, str) else ""

    @property
    def before_arguments(self) -> str:
        """From the name to the arguments; formats that write the name twice have it here once more."""
        return self._text(self._at(Slot.NAME) + 1, self._at(Slot.ARGUMENTS))

    @property
    def after_arguments(self) -> str:
        """From the arguments to the end of the call."""
        return self._text(self._at(Slot.ARGUMENTS) + 1, len(self.format.layout.call))

    def _at(self, slot: Slot) -> int:
        return self.format.layout.call.index(slot)

    def _text(self, start: int, end: int) -> str:
        number = str(self.format.layout.first_index + self.index)
        values = {Slot.NAME: self.name, Slot.ID: self.id, Slot.INDEX: number}
        pieces = self.format.layout.call[start:end]
        return "".join(piece if isinstance(piece, str) else values[piece] for piece in pieces)


def before_calls(format: ToolCallFormat, *, after_text: bool, after_thought: bool = False) -> str:
    """What stands between the prompt, the thought or the free text of a turn and its first call."""
    layout, marks = format.layout, format.reasoning
    if after_text:
        return layout.before_after_text + layout.section_open
    if marks is None:
        return layout.before + layout.section_open
    if after_thought:
        return marks.before_calls + layout.section_open
    if marks.is_open and marks.close.strip() not in layout.before:
        return marks.close + marks.before_calls + layout.section_open
    return layout.before + layout.section_open
