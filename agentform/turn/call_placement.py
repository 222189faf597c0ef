"""Where the parts of a call stand among a turn's tokens: its name, its arguments, and what comes after them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from agentform.decoding.formats.framing import CallFraming, before_calls
from agentform.decoding.formats.types import ArgumentStyle, Elements, JsonObject
from agentform.decoding.insertion_point import InsertionPoint
from agentform.decoding.thinking import SettledPrompt, settle
from agentform.decoding.token_context import TokenContext, advance
from agentform.decoding.tool_format import ToolCallFormat, new_call_id
from agentform.messages import Message
from agentform.runtime.engine import Tokenizer

__all__ = ["CallPlacement"]

_PROBE_ID = "a1b2c3d4e"
"""Stands for a call's id where only what the model makes of its place is asked."""


@dataclass(frozen=True)
class CallPlacement:
    """The places of calls that are written in a model's own format."""

    tokenizer: Tokenizer
    format: ToolCallFormat

    @cached_property
    def style(self) -> ArgumentStyle | None:
        """How arguments are written; `None` for one JSON object."""
        return None if self.format.arguments == JsonObject() else self.format.arguments

    @property
    def after_name(self) -> str:
        """What follows a tool's name; where nothing does, what an argument begins with."""
        style = self.format.arguments
        first = style.open if isinstance(style, Elements) else ""
        return CallFraming(format=self.format).after_name or first

    def framing(self, messages: Sequence[Message], name: str, num_calls: int) -> CallFraming:
        """Of the turn's next call, after `num_calls` of this turn and those of `messages`."""
        before = sum(len(message.calls) for message in messages) if self.format.layout.index == "conversation" else 0
        index = before + num_calls
        return CallFraming(format=self.format, name=name, id=new_call_id(self.format, name, index), index=index)

    def text_start(self, settled: SettledPrompt) -> tuple[int, ...]:
        """Token ids up to where free text begins, with what must stand before it."""
        start = advance(self.tokenizer, TokenContext(ids=settled.ids), settled.before_text(self.format))
        return start.token_ids(self.tokenizer)

    def name(self, context: TokenContext, opening: str) -> TokenContext:
        """Where a tool's name begins, `opening` being what stands between `context` and the call."""
        return advance(self.tokenizer, context, opening + CallFraming(format=self.format).before_name)

    def first_arguments(self, before: TokenContext, name: str, *, spoken: bool = False) -> InsertionPoint:
        """Where the arguments of the turn's first call begin, after free text if any was `spoken`.

        A thought that the prompt opens is closed at once.
        """
        settled = settle(self.tokenizer, self.format, before.ids)
        opening = settled.before_calls(self.format, after_text=spoken)
        framing = CallFraming(format=self.format, name=name, id=_PROBE_ID)
        return self.arguments(replace(before, ids=settled.ids), framing, name, opening, spoken=spoken)

    def arguments(
        self, before: TokenContext, framing: CallFraming, name: str, opening: str, *, spoken: bool
    ) -> InsertionPoint:
        """Where arguments begin, `opening` being what stands between `before` and the call.

        After a lead-in on a line of its own the call stands as it does after text.
        """

        def opened(context: TokenContext, said: bool) -> TokenContext:
            seam = opening if said == spoken else before_calls(self.format, after_text=said)
            at_name = advance(self.tokenizer, context, seam + framing.before_name)
            begin = advance(self.tokenizer, at_name.with_text(name), framing.before_arguments)
            return replace(begin, style=self.style)

        return InsertionPoint(before=before, opened=opened, spoken=spoken)

    def after(self, point: InsertionPoint, framing: CallFraming, arguments: str) -> TokenContext:
        """The context after a call with these arguments, JSON text."""
        written = point.json().with_text(arguments).spelt(self.tokenizer)
        return advance(self.tokenizer, written, framing.after_arguments)

    def closed(self, end: TokenContext) -> TokenContext:
        """The context after the last call."""
        return advance(self.tokenizer, end, self.format.layout.section_close)
