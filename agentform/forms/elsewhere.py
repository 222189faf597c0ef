"""A form's closed questions, asked of a decision model; those that it cannot be asked, or fails at, stay here."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from agentform.decoding.session import Session
from agentform.errors import EngineError
from agentform.forms.answer import Answer, Question
from agentform.forms.asked import Asked, Decision, OneOf, YesNo
from agentform.forms.decider import Decider
from agentform.messages import Message
from agentform.schema.json_text import dumps

__all__ = ["MOST_OPTIONS", "Elsewhere", "as_question", "asked_in_time", "state_of"]

MOST_OPTIONS = 255
"""Of one question, on System One's wire."""


@dataclass(frozen=True, kw_only=True)
class Elsewhere:
    """A decision model, and what it is told of the conversation."""

    decider: Decider
    state: str
    about: str = ""
    """What the form is for."""

    async def answers(
        self,
        session: Session,
        questions: Sequence[Question],
        own: Callable[[Sequence[Question]], Awaitable[list[Answer]]],
    ) -> list[Answer]:
        """An answer to each question, in their order; `own` answers what the decision model does not.

        Raises:
            DeadlineExceeded: the run's time is over.
            EngineError: the decision model failed and nobody may answer for it, or `own` failed.
        """
        made = {str(at): as_question(question, self.about) for at, question in enumerate(questions)}
        asked = {key: question for key, question in made.items() if question is not None}
        decided = await asked_in_time(session, self.decider, self.state, asked)
        left = [question for at, question in enumerate(questions) if str(at) not in decided]
        own_answers = iter(await own(left) if left else [])
        return [
            _answer(question, decided[str(at)]) if str(at) in decided else next(own_answers)
            for at, question in enumerate(questions)
        ]


async def asked_in_time(
    session: Session, decider: Decider, state: str, asked: Mapping[str, Asked]
) -> Mapping[str, Decision]:
    """The decisions, or none where the decider rests or fails and may be answered for.

    Raises:
        DeadlineExceeded: the run's time is over.
        EngineError: the decider failed and there is no fallback.
    """
    if not asked or decider.resting:
        return {}
    session.remaining_s()
    try:
        return await session.within_deadline(lambda: _caught(decider, state, asked))
    except _Failed as failed:
        if not decider.fallback:
            raise failed.error from None
        return {}


class _Failed(Exception):
    """What the decider raised, told apart from what ends the run."""

    def __init__(self, error: EngineError) -> None:
        super().__init__(str(error))
        self.error = error


async def _caught(decider: Decider, state: str, asked: Mapping[str, Asked]) -> Mapping[str, Decision]:
    try:
        return await decider.decide(state, asked)
    except EngineError as error:
        raise _Failed(error) from error


def as_question(question: Question, about: str) -> Asked | None:
    """The question in words, for a model that sees the text and not the form; `None` where it cannot be put so."""
    if not 2 <= len(question.answers) <= MOST_OPTIONS:
        return None
    said = "\n".join(filter(None, (about, _known(question), _words(question))))
    if all(isinstance(answer, bool) for answer in question.answers):
        return YesNo(said)
    notes = ["nothing is said of it" if at == question.nothing else "" for at in range(len(question.answers))]
    return OneOf(said, question.answers, notes)


def _known(question: Question) -> str:
    """The values of other fields on which the question depends."""
    return "" if question.alone is None else f"Settled so far, as JSON that goes on: {question.lead}"


def _words(question: Question) -> str:
    path = question.path[:-1] if question.kind == "member" else question.path
    name = " / ".join(path) or "answer"
    what = f"{name}: {question.description}" if question.description else name
    match question.kind:
        case "presence":
            return f"Is a value said for this? {what}"
        case "member":
            return f"Does {_member(question)} belong to this list? {what}"
        case "count":
            return f"How many items does this list have? {what}"
        case "arm":
            return f"Of which kind is this? {what}"
        case _:
            return f"Is this so? {what}" if isinstance(question.answers[0], bool) else f"What is this? {what}"


def _member(question: Question) -> str:
    """The option that a list may hold, as it stands as the last key of the lead."""
    return question.lead.rpartition("{")[2].removesuffix(":")


def _answer(question: Question, decision: Decision) -> Answer:
    given = [(type(option), option, p) for option, p in decision.probabilities]
    found = tuple(next(p for kind, o, p in given if kind is type(a) and o == a) for a in question.answers)
    at = next(at for at, a in enumerate(question.answers) if type(a) is type(decision.value) and a == decision.value)
    return Answer(
        question=question,
        index=at,
        probabilities=found,
        raw_probabilities=found,
        legal_mass=decision.legal_mass,
        by=decision.by,
    )


def state_of(messages: Sequence[Message], *more: str) -> str:
    """A conversation as the text that is judged: one message as it is, several as a transcript; then `more`."""
    if len(messages) == 1 and not more and messages[0].role == "user":
        return messages[0].content
    lines = [line for message in messages for line in _lines(message)]
    return "\n".join([*lines, *filter(None, more)])


def _lines(message: Message) -> list[str]:
    if message.result is not None:
        return [f"result of {message.result.name}: {message.result.content}"]
    calls = [f"assistant calls {call.name} {dumps(call.arguments)}" for call in message.calls]
    return [f"{message.role}: {message.content}", *calls] if message.content else calls
