"""Bounds on what one run may spend, and the deadline that follows from them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import anyio

from agentform.errors import DeadlineExceeded
from agentform.messages import Usage

__all__ = ["Deadline", "Limits"]


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What one run may spend. Token limits are upper bounds on sampled tokens."""

    steps: int = 8
    """Model turns in one agent run; in the last one no tool is offered, so that the run ends with an answer."""
    same_call: int = 2
    """Times that a call may be made with the same arguments in one run; instead of the next, the model answers."""
    parallel_calls: int = 1
    """Calls that the model may make in one turn, before it sees the result of any; they are run at the same time."""
    tools_at_once: int = 8
    """Tools of one run that are running at the same time, at most."""
    handoffs: int = 4
    """Times that the conversation may go over to another agent in one run; then no handoff is offered."""
    reasoning_tokens: int = 256
    """Free text before a call, per turn; with 0 the next step is chosen before anything is said."""
    answer_tokens: int = 512
    """Free text of a final answer, the reasoning that became the answer included."""
    argument_tokens: int = 128
    """One free argument. One that runs into this because it repeats itself is written again with less room."""
    result_tokens: int = 16_384
    """One tool's result. A longer one is cut, with a line that says so, and so is what would fill the context: the
    results of one turn take half of what is left of it at most."""
    completion_tokens: int | None = None
    """All sampled tokens of the run together; whatever is being written then is cut off."""
    repairs: int = 2
    """Times that failing leaves are decided again before the call is rejected.

    As often, at most, each free argument is written again because it repeated itself; then it is truncated.
    """
    joint_candidates: int = 256
    """Joint assignments of closed leaves that are tried against the validators in one repair."""
    joint_s: float = 2.0
    """Seconds for the same."""
    deadline_s: float | None = None
    """Wall-clock seconds for the whole run."""
    min_legal_mass: float | None = None
    """Abstain when the legal options of a scored leaf hold less probability than this."""
    min_probability: float | None = None
    """Abstain when the chosen option of a scored leaf has less probability than this."""
    stop_when: Callable[[Usage], bool] | None = None
    """Asked before every turn but the first with what the run has used; when it says so, the model answers.

    It must not block. What it raises ends the run.
    """

    def __post_init__(self) -> None:
        for name in (
            "steps",
            "same_call",
            "parallel_calls",
            "tools_at_once",
            "answer_tokens",
            "argument_tokens",
            "result_tokens",
        ):
            if getattr(self, name) < 1:
                raise ValueError(f"Limits.{name} must be at least 1, got {getattr(self, name)}")
        for name in ("handoffs", "reasoning_tokens", "completion_tokens", "repairs", "joint_candidates"):
            if (getattr(self, name) or 0) < 0:
                raise ValueError(f"Limits.{name} must not be negative, got {getattr(self, name)}")


class Deadline:
    """A point on the event loop's clock."""

    def __init__(self, seconds: float | None) -> None:
        self._at = math.inf if seconds is None else anyio.current_time() + seconds
        self._seconds = seconds

    def remaining_s(self) -> float | None:
        """Seconds left, or `None` without a deadline.

        Raises:
            DeadlineExceeded: when none are left.
        """
        if math.isinf(self._at):
            return None
        left = self._at - anyio.current_time()
        if left <= 0:
            raise self.exceeded()
        return left

    def exceeded(self) -> DeadlineExceeded:
        """The error for work that was stopped at the deadline, by whatever clock."""
        return DeadlineExceeded(f"the run was not done within {self._seconds} s")
