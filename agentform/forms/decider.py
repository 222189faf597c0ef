"""A decision model beside a chat model: who is asked closed questions, how long it may take, and what if it fails."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol, runtime_checkable

import anyio

from agentform._util.text import said
from agentform.errors import (
    ContextOverflow,
    DecisionFailed,
    EngineError,
    EngineUnavailable,
    InvalidInput,
    InvalidRequest,
)
from agentform.forms.asked import Asked, Decision, require_options

__all__ = ["Decider", "DecisionModel"]


@runtime_checkable
class DecisionModel(Protocol):
    """Answers typed questions about a text, each by itself."""

    @property
    def name(self) -> str:
        """What evidence calls it."""
        ...

    async def decide(self, state: str, questions: Mapping[str, Asked]) -> Mapping[str, Decision]:
        """A decision for every question, under its name.

        Raises:
            EngineError: it cannot answer.
        """
        ...


@dataclass(kw_only=True)
class _Rest:
    """Until when a model that failed is not asked, by `time.monotonic`."""

    until: float = -float("inf")


@dataclass(frozen=True, kw_only=True)
class Decider:
    """A decision model with its terms. May be used by any number of agents, forms and servers at once.

    Raises:
        InvalidInput: `timeout_s` is not above 0, or `rest_s` below 0.
    """

    model: DecisionModel
    timeout_s: float = 10.0
    """Seconds for one batch of questions, tries again included."""
    fallback: bool = True
    """Whether the chat model answers where this one fails; without it the failure is raised."""
    rest_s: float = 30.0
    """Seconds in which a model that failed is not asked again, where there is a fallback: nobody waits for it twice."""
    _rest: _Rest = field(default_factory=_Rest, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.timeout_s > 0 or not self.rest_s >= 0:
            raise InvalidInput(f"timeout_s must be above 0 and rest_s not below: {self.timeout_s}, {self.rest_s}")

    @property
    def name(self) -> str:
        """The decision model's name."""
        return self.model.name

    @property
    def resting(self) -> bool:
        """Whether it failed a short while ago, so that the chat model is asked in its place."""
        return self.fallback and time.monotonic() < self._rest.until

    async def decide(self, state: str, questions: Mapping[str, Asked]) -> dict[str, Decision]:
        """A decision for every question, marked with the model's name.

        Raises:
            InvalidInput: no question is asked.
            UnsupportedSchema: a question has fewer than two options.
            EngineUnavailable, EngineUnauthorized: it is not there, silent for too long, or refuses this client.
            ReplyMalformed: its answer is none.
            DecisionFailed: it failed in a way of its own, which is the cause.
            EngineError: whatever else a model raises that is asked in vain.
        """
        require_options(questions)
        try:
            found = await self._asked(state, questions)
        except EngineError as error:
            if not isinstance(error, InvalidRequest | ContextOverflow):  # the request's fault is no sign of illness
                self._rest.until = time.monotonic() + self.rest_s
            raise
        return {name: replace(found[name], by=self.name) for name in questions}

    async def _asked(self, state: str, questions: Mapping[str, Asked]) -> Mapping[str, Decision]:
        with anyio.move_on_after(self.timeout_s):
            try:
                found = await self.model.decide(state, questions)
            except EngineError:
                raise
            except Exception as error:
                raise DecisionFailed(f"{self.name} failed: {type(error).__name__}: {said(error)}") from error
            if missing := [name for name in questions if name not in found]:
                raise DecisionFailed(f"{self.name} left questions without an answer: {', '.join(missing[:3])}")
            if odd := [name for name, asked in questions.items() if not _is_answer(asked, found[name])]:
                raise DecisionFailed(f"{self.name} did not decide between the options asked: {', '.join(odd[:3])}")
            return found
        raise EngineUnavailable(f"{self.name} did not decide within {self.timeout_s:g} s; see timeout_s")


def _is_answer(asked: Asked, decision: object) -> bool:
    """Whether it is one of the options, and each has a probability; `1` is not `True` here, nor `1.0`."""
    if not isinstance(decision, Decision):
        return False
    options = [(type(option), option) for option, _ in asked.told]
    given = [(type(option), option) for option, _ in decision.probabilities]
    chosen = (type(decision.value), decision.value)
    return chosen in options and (given == options or all(option in given for option in options))
