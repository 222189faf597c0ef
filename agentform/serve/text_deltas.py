"""What can be told of a turn's texts while it runs, whatever the API: nothing that is taken back later.

Free text is held back where it may yet be taken back: white space at its end, which an answer is stripped of, and
with tools what may be a call written as prose. Where the text before a call is told apart, it is held until it
is known which of them it is; with a form or a grammar, the form alone is the answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

from agentform.events import AnswerDelta, ChoiceMade, Event, ReasoningDelta, ThoughtDelta
from agentform.serve.turn_request import TurnRequest

__all__ = ["TextDelta", "TextDeltas"]

_MAY_BEGIN_A_CALL = ("{", "```")


class TextDelta(NamedTuple):
    """A piece of text."""

    kind: Literal["content", "reasoning"]
    text: str


class TextDeltas:
    """Turns the events of a turn into pieces which, put together, are the whole answer's texts."""

    def __init__(self, request: TurnRequest, *, separate: bool) -> None:
        """`separate`: the text before a call is reasoning."""
        self._is_formed = request.is_formed
        self._may_call = request.may_call
        self._undecided = request.may_call
        self._separate = separate and request.may_call
        self._before_call = request.must_call  # else it is not known before the decision
        self._text = ""
        self._sent = ""
        self._thought = ""
        self._reasoned = ""

    def of(self, event: Event) -> Iterator[TextDelta]:
        """The pieces that an event makes."""
        match event:
            case ThoughtDelta():
                self._thought += event.text
                self._reasoned += event.text
                yield TextDelta("reasoning", event.text)
                return
            case ReasoningDelta() | AnswerDelta():
                self._text += event.text
            case ChoiceMade():
                if event.decision.how == "generated":  # a call written as prose: what is text is known at the end
                    self._text = self._sent
                self._undecided = False
                self._before_call = event.decision.value is not None
            case _:
                return
        yield from self._more()

    def end(self, content: str, reasoning: str) -> Iterator[TextDelta]:
        """The rest, given the texts of the whole answer."""
        yield from self._reasoning(reasoning)
        yield from self._content(content)

    def _more(self) -> Iterator[TextDelta]:
        if not self._separate:
            if not self._is_formed:
                yield from self._content(self._safe())
        elif self._before_call:
            if self._safe():
                yield from self._reasoning(self._thought + ("\n\n" if self._thought else "") + self._safe())
        elif not self._undecided and not self._is_formed:
            yield from self._content(self._safe())

    def _content(self, text: str) -> Iterator[TextDelta]:
        if text.startswith(self._sent) and len(text) > len(self._sent):
            yield TextDelta("content", text[len(self._sent) :])
            self._sent = text

    def _reasoning(self, text: str) -> Iterator[TextDelta]:
        if text.startswith(self._reasoned) and len(text) > len(self._reasoned):
            yield TextDelta("reasoning", text[len(self._reasoned) :])
            self._reasoned = text

    def _safe(self) -> str:
        text = self._text.strip()
        if not self._undecided:
            return text
        found = [at for mark in _MAY_BEGIN_A_CALL if (at := text.find(mark)) >= 0]
        # A fence may come in pieces.
        return text[: min(found)].rstrip() if found else text.rstrip("`").rstrip()
