"""Tells a listener of arguments while they come about: values as they are chosen, text as it is written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from agentform.events import ArgumentChosen, ArgumentDelta, Emit
from agentform.forms.word_ends import before_last_word
from agentform.messages import Evidence

__all__ = ["LeafText", "Watch"]


@dataclass(frozen=True, kw_only=True)
class Watch:
    """The listener to one call, or to one form."""

    emit: Emit
    call_id: str = ""
    tool: str = ""
    """Name of the tool; empty for a form that is an answer."""
    _attempts: Counter[str] = field(default_factory=Counter[str])

    async def chosen(self, evidence: Iterable[Evidence]) -> None:
        """Tell of values that were not written."""
        for item in evidence:
            await self.emit(ArgumentChosen(call_id=self.call_id, tool=self.tool, evidence=item))

    def leaf(self, pointer: str, *, lead: str, follow: str, words: bool = False) -> LeafText:
        """Listen to one free leaf; what is written begins with `lead` and may end with `follow`.

        Of one that may be cut at a word only whole `words` are told.
        """
        attempt = self._attempts[pointer]
        self._attempts[pointer] += 1
        return LeafText(self, pointer, attempt, len(lead), len(follow), words)


@dataclass
class LeafText:
    """How much of a free leaf's text was told."""

    _watch: Watch
    _pointer: str
    _attempt: int
    _told: int
    _held_back: int
    """The last characters wait: they may be what follows the leaf."""
    _words: bool
    """The last word waits: it may be taken away."""

    async def wrote(self, text: str) -> None:
        """Tell of what is new in `text`, all that is written so far."""
        certain = text[: max(len(text) - self._held_back, 0)]
        await self._tell(before_last_word(certain) if self._words else certain)

    async def ended(self, text: str) -> None:
        """Tell of the rest of `text`, which holds the leaf and its lead and nothing after it."""
        await self._tell(text)

    async def _tell(self, text: str) -> None:
        new = text[self._told :]
        if not new:
            return
        self._told = len(text)
        await self._watch.emit(
            ArgumentDelta(
                call_id=self._watch.call_id,
                tool=self._watch.tool,
                pointer=self._pointer,
                text=new,
                attempt=self._attempt,
            )
        )
