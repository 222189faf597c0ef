"""How a tool is run: how long, how often, and what happens when it fails."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Literal, TypeVar

import anyio

from agentform._util.threads import Place, Threads
from agentform.errors import ToolTimeout

__all__ = ["OnToolError", "ToolPolicy"]

T = TypeVar("T")

OnToolError = Literal["feed_back", "raise"]
"""What happens when a tool has failed: the model is told and goes on, or the run ends with `ToolFailed`."""


@dataclass(frozen=True, kw_only=True)
class ToolPolicy:
    """Limits on one call of a tool. Times are per attempt."""

    timeout_s: float | None = None
    retries: int = 0
    """Times that a call is tried again after a failure."""
    backoff_s: float = 0.5
    """Seconds before the first retry; each further one waits twice as long."""
    retry_on: tuple[type[Exception], ...] = (Exception,)
    """Failures after which a call is tried again; an attempt that was too slow fails with `ToolTimeout`."""
    on_error: OnToolError | None = None
    """`None` leaves it to the agent."""

    def __post_init__(self) -> None:
        if self.timeout_s is not None and self.timeout_s <= 0:
            raise ValueError(f"timeout_s must be positive, got {self.timeout_s}")
        if self.retries < 0 or self.backoff_s < 0:
            raise ValueError(f"retries and backoff_s must not be negative, got {self.retries} and {self.backoff_s}")

    async def run(
        self, name: str, attempt: Callable[[int, Place | None], Awaitable[T]], *, threads: Threads | None = None
    ) -> T:
        """What `attempt` returns, given the number of failures before it; tried again where the policy allows.

        With `threads` it is given a place among them too; the time until there is one is not the attempt's.

        Raises:
            ToolTimeout: the last attempt took too long; it was cancelled.
            Exception: whatever else the last attempt raised, as it is.
        """
        for number in range(self.retries):
            try:
                return await self._once(name, attempt, number, threads)
            except self.retry_on:
                await anyio.sleep(self.backoff_s * 2**number)
        return await self._once(name, attempt, self.retries, threads)

    async def _once(
        self, name: str, attempt: Callable[[int, Place | None], Awaitable[T]], number: int, threads: Threads | None
    ) -> T:
        async with nullcontext() if threads is None else threads.place() as place:
            # Not `fail_after`: a TimeoutError of the tool's own has to be told from ours.
            with anyio.move_on_after(self.timeout_s) as scope:
                return await attempt(number, place)
        assert scope.cancelled_caught
        raise ToolTimeout(name, self.timeout_s)
