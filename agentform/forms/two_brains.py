"""Questions asked of a decision model, and of the engine's own model what that one does not answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from agentform.decoding.limits import Limits
from agentform.decoding.session import Session
from agentform.forms.asked import Asked, Decision, Decisions
from agentform.forms.elsewhere import MOST_OPTIONS, asked_in_time, state_of
from agentform.forms.langchain_decider import DeciderSource, decider_of
from agentform.messages import Message, Usage
from agentform.runtime.engine import Engine

__all__ = ["OwnDecisions", "decide_with"]

OwnDecisions: TypeAlias = Callable[[Mapping[str, Asked]], Awaitable[Decisions]]
"""Answers questions by the engine's own model."""


async def decide_with(
    source: DeciderSource | None,
    engine: Engine,
    state: str | Sequence[Message],
    questions: Mapping[str, Asked],
    own: OwnDecisions,
) -> Decisions:
    """An answer to each question, in their order; `own` answers what the decision model does not, if it may.

    Raises:
        EngineError: the decision model failed and there is no fallback, or `own` failed.
    """
    asked = {name: each for name, each in questions.items() if 2 <= len(each.told) <= MOST_OPTIONS}
    found: Mapping[str, Decision] = {}
    decider = decider_of(source)
    if decider is not None and asked:
        told = state if isinstance(state, str) else state_of(state)
        found = await asked_in_time(Session(engine, limits=Limits()), decider, told, asked)
    left = {name: each for name, each in questions.items() if name not in found}
    rest = await own(left) if left else Decisions(decided={}, usage=Usage())
    decided = {**found, **rest.decided}
    return replace(rest, decided={name: decided[name] for name in questions})
