"""Where a form's JSON begins, and what may stand on a line of its own before it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from agentform.decoding.token_context import TokenContext

__all__ = ["InsertionPoint", "unframed"]


@dataclass(frozen=True, kw_only=True)
class InsertionPoint:
    """The end of the free text, and how the frame around the JSON is opened there."""

    before: TokenContext
    opened: Callable[[TokenContext, bool], TokenContext]
    """The context inside the frame, given one before it and whether text stands directly before the frame."""
    spoken: bool = False
    """Whether free text stands before the frame."""

    def json(self, line: str = "") -> TokenContext:
        """Where the JSON begins, after a line of its own if one is given."""
        if not line:
            return self.opened(self.before, self.spoken)
        return self.opened(self.text(line), True)

    def text(self, text: str) -> TokenContext:
        """Outside the frame, after `text` on a line of its own."""
        return self.before.with_text(("\n" if self.spoken else "") + text)


def unframed(context: TokenContext, *, spoken: bool = False) -> InsertionPoint:
    """An insertion point without a frame; after free text (`spoken`) the JSON begins on a line of its own."""
    return InsertionPoint(
        before=context,
        opened=lambda inner, spoken: inner.with_text("\n") if spoken else inner,
        spoken=spoken,
    )
