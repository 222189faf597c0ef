"""Questions asked of a decision model, and of the engine's own model what that one does not answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import TypeAlias

from agentform.decoding.limits import Limits
from agentform.decoding.session import Session
from agentform.forms.asked import Asked, Decision, Decisions
from agentform.forms.decider import Decider
from agentform.forms.elsewhere import MOST_OPTIONS, asked_in_time
from agentform.messages import Usage
from agentform.runtime.engine import Engine

__all__ = ["OwnDecisions", "decide_with"]

OwnDecisions: TypeAlias = Callable[[Mapping[str, Asked]], Awaitable[Decisions]]
"""Answers questions by the engine's own model."""


async def decide_with(
    decider: Decider | None, engine: Engine, state: str, questions: Mapping[str, Asked], own: OwnDecisions
) -> Decisions:
    """An answer to each question, in their order; `own` answers what the decision model does not, if it may.

    Raises:
        EngineError: the decision model failed and there is no fallback, or `own` failed.
    """
    asked = {name: each for name, each in questions.items() if 2 <= len(each.told) <= MOST_OPTIONS}
    found: Mapping[str, Decision] = {}
    if decider is not None and asked:
        found = await asked_in_time(Session(engine, limits=Limits()), decider, state, asked)
    left = {name: each for name, each in questions.items() if name not in found}
    rest = await own(left) if left else Decisions(decided={}, usage=Usage())
    decided = {**found, **rest.decided}
    return replace(rest, decided={name: decided[name] for name in questions})
