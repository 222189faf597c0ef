"""How many requests are worked on, how many wait, and what becomes of them when the server stops."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio

from agentform.serve.problems import Problem, Refused

__all__ = ["Admission"]

_MEMORY = 0.8
"""Weight of the past in the running mean of how long a request takes."""


class Admission:
    """Lets a bounded number of requests in, a bounded number wait, and ends all of them when told to."""

    def __init__(self, *, max_running: int, max_queued: int, deadline_s: float) -> None:
        self._limiter = anyio.Semaphore(max_running, max_value=max_running)
        self._max_running = max_running
        self._max_queued = max_queued
        self._deadline_s = deadline_s
        self._scopes: set[anyio.CancelScope] = set()
        self._mean_s = 0.0
        self.running = 0
        """Requests that are worked on."""
        self.queued = 0
        """Requests that wait."""
        self.draining = False
        """Whether no further request is let in."""

    @property
    def idle(self) -> bool:
        """Whether no request runs or waits."""
        return not self._scopes

    def drain(self) -> None:
        """Let nobody in from now on."""
        self.draining = True

    def cancel_all(self) -> None:
        """End every request that still runs or waits."""
        for scope in self._scopes:
            scope.cancel()

    @asynccontextmanager
    async def admit(self) -> AsyncGenerator[None, None]:
        """The time in which a request is worked on; waits for its turn first.

        Raises:
            Refused: 429 when too many wait, 503 when the server stops, 504 at the deadline.
        """
        if self.draining:
            raise Refused(self._stopping())
        if self.running >= self._max_running and self.queued >= self._max_queued:
            raise Refused(self._full())
        scope = anyio.CancelScope(deadline=anyio.current_time() + self._deadline_s)
        self._scopes.add(scope)
        try:
            with scope:
                async with self._turn():
                    yield
        finally:
            self._scopes.discard(scope)
        if scope.cancelled_caught:
            raise Refused(self._stopping() if self.draining else self._late())

    @asynccontextmanager
    async def _turn(self) -> AsyncGenerator[None, None]:
        self.queued += 1
        try:
            await self._limiter.acquire()
        finally:
            self.queued -= 1
        started = anyio.current_time()
        self.running += 1
        try:
            yield
        finally:
            self.running -= 1
            self._limiter.release()
            self._mean_s = _MEMORY * self._mean_s + (1 - _MEMORY) * (anyio.current_time() - started)

    def _full(self) -> Problem:
        wait_s = max(1, math.ceil(self._mean_s * (self.queued + 1) / self._max_running))
        return Problem(
            status=429,
            code="too_many_requests",
            message=f"{self.running} requests run and {self.queued} wait; try again in {wait_s} s",
            headers={"retry-after": str(wait_s)},
        )

    def _late(self) -> Problem:
        message = f"the request was not done within {self._deadline_s:g} s"
        return Problem(status=504, code="deadline_exceeded", message=message, headers={"x-should-retry": "false"})

    @staticmethod
    def _stopping() -> Problem:
        return Problem(
            status=503,
            code="shutting_down",
            message="the server is shutting down",
            headers={"retry-after": "5", "connection": "close"},
        )
