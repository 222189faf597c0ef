"""The requests that wait for a server, so that closing the engine ends them, whichever event loop they run in."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import Any

import anyio

from agentform._util.loops import loop_caller
from agentform.errors import EngineClosed
from agentform.runtime.preparation import left_s

__all__ = ["InFlight"]


class InFlight:
    """Scopes by the loops they run in."""

    def __init__(self) -> None:
        self.closed = False
        self._scopes: dict[anyio.CancelScope, Callable[[Callable[[], Any]], Any]] = {}

    def check(self) -> None:
        """Whether requests are still taken.

        Raises:
            EngineClosed: after `close`.
        """
        if self.closed:
            raise EngineClosed("the engine is closed")

    @contextmanager
    def scope(self, deadline: float = math.inf) -> Generator[anyio.CancelScope, None, None]:
        """A scope that is cancelled at `deadline`, on the monotonic clock, or by `close`; not for use around a yield.

        Raises:
            EngineClosed: the engine is closed, or was while this waited.
        """
        self.check()
        with anyio.move_on_after(left_s(deadline)) as scope:
            self._scopes[scope] = loop_caller()
            try:
                yield scope
            finally:
                del self._scopes[scope]
        if scope.cancelled_caught:
            self.check()

    def close(self) -> None:
        """End what waits; safe to call from any thread."""
        self.closed = True
        for scope, call_in_loop in list(self._scopes.items()):
            with suppress(RuntimeError):  # the loop has ended
                call_in_loop(scope.cancel)
