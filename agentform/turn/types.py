"""What a turn may come to, and what it came to."""

from __future__ import annotations

from dataclasses import dataclass

from agentform.forms.state import FormState
from agentform.grammar.spec import GrammarSpec
from agentform.messages import Evidence, Message
from agentform.runtime.engine import FinishReason
from agentform.schema.target import Target
from agentform.turn.reasoning import Reasoning

__all__ = ["TurnOptions", "TurnResult"]


@dataclass(frozen=True, kw_only=True)
class TurnResult:
    """What the model did in one turn."""

    message: Message
    """The assistant's message: free text, and the calls if any were made."""
    token_ids: tuple[int, ...]
    """The conversation up to and including this turn, as the engine saw it."""
    finish: FinishReason
    """How the free text ended; `length` means that it was cut off."""
    decision: Evidence | None = None
    filled: FormState | None = None
    """The form that was the answer, if the turn was to answer with one."""
    num_before: int = 0
    """How many of `token_ids` stand before an answer or a form."""
    stop: str | None = None
    """Which of the texts that the turn was asked to stop at ended the answer."""


@dataclass(frozen=True, kw_only=True)
class TurnOptions:
    """What a turn may come to; by default the model calls any of the tools or answers in free text."""

    may_call: bool = True
    may_answer: bool = True
    """Without it the model calls a tool, whatever it says before."""
    tool: str | None = None
    """The only tool that may be called; the model is told of the others all the same."""
    barred: frozenset[str] = frozenset()
    """Tools that may not be called now, though the model is told of them."""
    form: Target | None = None
    """An answer is this form, filled, instead of free text."""
    stop: tuple[str, ...] = ()
    """Texts that end the turn where they occur in free text."""
    reasoning: Reasoning | None = None
    """How the model thinks in this turn; `None`: as it does in others."""
    grammar: GrammarSpec | None = None
    """What an answer in free text has to match. It is then written after whatever was said before, as a form is."""

    @property
    def is_formed(self) -> bool:
        """Whether an answer is written apart from the free text, under a form or a grammar."""
        return self.form is not None or self.grammar is not None
