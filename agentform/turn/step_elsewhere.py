"""The next step of a turn, asked of a decision model: which tool is called, or whether the model answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agentform.decoding.limits import Limits
from agentform.decoding.session import Session
from agentform.forms.asked import Decision, OneOf
from agentform.forms.decider import Decider
from agentform.forms.elsewhere import asked_in_time, state_of
from agentform.messages import Alternative, Evidence, Message
from agentform.schema.target import Target
from agentform.turn.next_step import require_sure

__all__ = ["step_elsewhere", "turn_state"]

_MOST_TOOLS = 254
_NUM_ALTERNATIVES = 3
_QUESTION = "What does the assistant do next?"
_ANSWER = "It answers in words: no tool is needed, or their results are there."


def turn_state(messages: Sequence[Message], instructions: str, said: str) -> str:
    """The conversation up to here as a decision model reads it."""
    told = [f"assistant: {said}"] if said else []
    before = [Message(role="system", content=instructions)] if instructions else []
    return state_of([*before, *messages], *told)


async def step_elsewhere(
    session: Session, decider: Decider, state: str, tools: Mapping[str, Target], *, answer: str | None
) -> Evidence | None:
    """The decision, its value `None` for an answer, which goes by the name `answer`; `None` if nobody decided it.

    Raises:
        Abstained: the decision stayed below the limit on probability.
        DeadlineExceeded: the run's time is over.
        EngineError: the decision model failed and there is no fallback.
    """
    names = [*tools, *([] if answer is None else [answer])]
    if not 2 <= len(names) <= _MOST_TOOLS + 1:
        return None
    described = [target.description for target in tools.values()] + [_ANSWER]
    asked = OneOf(_QUESTION, names, described[: len(names)])
    decided = await asked_in_time(session, decider, state, {"step": asked})
    return _evidence(decided["step"], answer, session.limits) if decided else None


def _evidence(decision: Decision, answer: str | None, limits: Limits) -> Evidence:
    others = sorted((row for row in decision.probabilities if row[0] != decision.value), key=lambda row: -row[1])
    made = Evidence(
        pointer="",
        value=None if decision.value == answer else decision.value,
        how="scored",
        probability=decision.probability,
        raw_probability=decision.probability,
        legal_mass=decision.legal_mass,
        alternatives=tuple(
            Alternative(value=None if value == answer else value, probability=p)
            for value, p in others[:_NUM_ALTERNATIVES]
        ),
        by=decision.by,
    )
    return require_sure(made, limits)
