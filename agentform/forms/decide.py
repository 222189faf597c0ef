"""`decide`: typed questions about a text, a conversation or data, asked of an engine or of a decision model."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeAlias, cast

import anyio

from agentform._util.sync import run_blocking
from agentform.decoding.limits import Deadline, Limits
from agentform.errors import Abstained, CannotScore, InvalidInput
from agentform.forms.asked import Asked, Decision, Decisions, OneOf, Score, YesNo, require_options
from agentform.forms.decider import Decider
from agentform.forms.decisions import Together
from agentform.forms.elsewhere import state_of
from agentform.forms.fill import as_messages
from agentform.forms.isolated import decide_isolated
from agentform.forms.label_prior import PriorStore
from agentform.forms.langchain_decider import DeciderSource, decider_of
from agentform.forms.scoring import Scoring
from agentform.forms.system_one import WireQuestion, asked_of
from agentform.messages import Evidence, JsonValue, Message, Usage
from agentform.runtime.engine import Engine
from agentform.schema.json_text import dumps

__all__ = ["DecideQuestion", "DecideState", "asker", "decide", "decide_sync"]

DecideQuestion: TypeAlias = Asked | WireQuestion
"""A question, or its body as `POST /v1/systemone` takes it: of type noul, choice or score."""
DecideState: TypeAlias = str | Sequence[Message] | Mapping[str, JsonValue] | Sequence[JsonValue]
"""A text, a conversation, or JSON that the model reads as its text."""


async def decide(
    engine: Engine | DeciderSource,
    state: DecideState,
    questions: Mapping[str, DecideQuestion],
    *,
    instructions: str = "",
    limits: Limits | None = None,
    scoring: Scoring | None = None,
    priors: PriorStore | None = None,
) -> Decisions:
    """Answer every question about `state`.

    An engine answers all in one batch; where `Scoring.symmetry` is given, each question by itself, put in several ways.
    A decision model in its place, such as `load_decider` makes, is asked each question by itself; `scoring` and
    `priors` are then not used, and its failures are raised: nobody else is there.
    Objects with a `model_dump`, as System One's client and LangChain have them, count as their bodies.

    Raises:
        InvalidInput: no question is asked, or a body asks none.
        CannotScore: the engine only writes; the error says what would work.
        UnsupportedSchema: a question has fewer than two options.
        Abstained: a decision stayed below the limits on legal mass or probability.
        EngineError: the engine or the decision model cannot serve the request.
    """
    ask = await asker(engine, questions, instructions=instructions, limits=limits, scoring=scoring, priors=priors)
    return await ask(state)


async def asker(
    engine: Engine | DeciderSource,
    questions: Mapping[str, DecideQuestion],
    *,
    instructions: str = "",
    limits: Limits | None = None,
    scoring: Scoring | None = None,
    priors: PriorStore | None = None,
) -> Callable[[DecideState], Awaitable[Decisions]]:
    """`decide` for the same questions about any number of states; the arguments are the same.

    Raises:
        InvalidInput, CannotScore, UnsupportedSchema: as `decide` raises them.
    """
    asked = {name: _asked(name, question) for name, question in questions.items()}
    if isinstance(engine, Engine):
        if not engine.info.scores:
            raise CannotScore(engine.info.name)
        scoring = scoring or Scoring.of(engine)
        if scoring.symmetry is not None:
            require_options(asked)
            ask_alone = functools.partial(decide_isolated, engine, limits=limits, scoring=scoring, priors=priors)
            return lambda state: ask_alone(_as_text(state, instructions), asked)
        together = await Together.of(
            engine, asked, instructions=instructions, limits=limits, scoring=scoring, priors=priors
        )
        return lambda state: together.decide(_read(state))
    decider = decider_of(engine)
    assert decider is not None

    async def ask(state: DecideState) -> Decisions:
        return await _elsewhere(decider, _as_text(state, instructions), asked, limits or Limits())

    return ask


def decide_sync(
    engine: Engine | DeciderSource, state: DecideState, questions: Mapping[str, DecideQuestion], **options: Any
) -> Decisions:
    """`decide` for code without an event loop, and for notebooks whose loop is already running."""
    return run_blocking(functools.partial(decide, engine, state, questions, **options))


async def _elsewhere(decider: Decider, text: str, asked: Mapping[str, Asked], limits: Limits) -> Decisions:
    deadline = Deadline(limits.deadline_s)
    with anyio.move_on_after(deadline.remaining_s()):
        decided = await decider.decide(text, asked)
        for name, decision in decided.items():
            _require_sure(name, decision, limits)
        return Decisions(decided=decided, usage=Usage())
    raise deadline.exceeded()


def _require_sure(name: str, decision: Decision, limits: Limits) -> None:
    least = limits.min_probability
    if least is not None and decision.probability < least:
        reason = f"{name!r}: probability {decision.probability:.3g} is below the limit of {least:.3g}"
        evidence = Evidence(
            pointer=f"/{name}",
            value=decision.value,
            how="scored",
            probability=decision.probability,
            raw_probability=decision.probability,
            by=decision.by,
        )
        raise Abstained(reason, [evidence])


def _asked(name: str, question: DecideQuestion) -> Asked:
    if isinstance(question, YesNo | OneOf | Score):
        return question
    body = question.model_dump() if hasattr(question, "model_dump") else question  # type: ignore[union-attr]
    if not isinstance(body, Mapping):
        raise InvalidInput(f"question {name!r} must be a YesNo, OneOf, Score or a body of one, got {question!r}")
    return asked_of(name, cast("WireQuestion", body))


def _as_text(state: DecideState, instructions: str) -> str:
    """What is judged, as one text after the instructions."""
    said = _read(state)
    text = said if isinstance(said, str) else state_of(as_messages(said))
    return "\n\n".join(filter(None, (instructions, text)))


def _read(state: DecideState) -> str | Sequence[Message]:
    """JSON as its text; an empty list is no conversation and no data."""
    if isinstance(state, str):
        return state
    if isinstance(state, Mapping):
        return dumps(state)
    messages = [item for item in state if isinstance(item, Message)]
    return messages if len(messages) == len(state) else dumps(cast("JsonValue", list(state)))
