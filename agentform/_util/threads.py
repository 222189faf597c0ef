"""Worker threads by kind of work, so that a kind whose threads all wait keeps no other from its work.

anyio's own limit of forty threads is one for everything that runs on an event loop: forty tools that block would keep
grammars from being compiled and conversations from being saved.
"""

from __future__ import annotations

import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from functools import partial
from typing import Generic, TypeVar

import anyio
import anyio.lowlevel
import anyio.to_thread
from typing_extensions import ParamSpec

from agentform._util.loops import loop_caller

__all__ = [
    "APPROVALS",
    "ENGINES",
    "FORMS",
    "GRAMMARS",
    "PROMPTS",
    "REQUESTS",
    "STORES",
    "TOOLS",
    "Place",
    "Threads",
    "is_given_up",
]

P = ParamSpec("P")
T = TypeVar("T")


_waited_for: ContextVar[Callable[[], bool] | None] = ContextVar("agentform thread", default=None)


def is_given_up() -> bool:
    """Whether the code runs in a thread of a kind whose caller has been cancelled: long work may stop then."""
    is_waited_for = _waited_for.get()
    return is_waited_for is not None and not is_waited_for()


class Threads:
    """At most so many threads of one kind per event loop. One that was left to end by itself counts until it has."""

    def __init__(self, kind: str, most: int) -> None:
        self._most = most
        self._limiter: anyio.lowlevel.RunVar[anyio.CapacityLimiter] = anyio.lowlevel.RunVar(f"agentform {kind}")

    async def run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """What `work` returns. When cancelled the caller goes on, and the thread is left to end by itself."""
        async with self.place() as place:
            return await place.run(work, *args, **kwargs)

    @asynccontextmanager
    async def place(self) -> AsyncGenerator[Place, None]:
        """Wait here for a thread, so that a clock can be started once there is one."""
        limiter, holder = self._limit(), object()
        await limiter.acquire_on_behalf_of(holder)
        place = Place(loop_caller(), partial(limiter.release_on_behalf_of, holder))
        try:
            yield place
        finally:
            place.leave()

    def _limit(self) -> anyio.CapacityLimiter:
        try:
            return self._limiter.get()
        except LookupError:
            self._limiter.set(made := anyio.CapacityLimiter(self._most))
            return made


class Place:
    """Room for one thread at a time; given back when its owner has left and its threads have ended."""

    def __init__(self, in_loop: Callable[[Callable[[], None]], object], give_back: Callable[[], None]) -> None:
        self._in_loop = in_loop
        self._give_back = give_back
        self._lock = threading.Lock()
        self._num_users = 1

    async def run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """What `work` returns in a thread; see `Threads.run`."""
        started = _Started(self, partial(work, *args, **kwargs))
        alone = anyio.CapacityLimiter(1)  # the place is what counts
        try:
            return await anyio.to_thread.run_sync(started, abandon_on_cancel=True, limiter=alone)
        finally:
            started.give_up()

    def leave(self) -> None:
        """The owner needs it no more. In the event loop."""
        if self._ends_use():
            self._give_back()

    def begin(self) -> None:
        """A thread begins to use it."""
        with self._lock:
            self._num_users += 1

    def end(self) -> None:
        """That thread has ended. In that thread."""
        if self._ends_use():
            with suppress(RuntimeError):  # the loop has ended, and its limits with it
                self._in_loop(self._give_back)

    def _ends_use(self) -> bool:
        with self._lock:
            self._num_users -= 1
            return self._num_users == 0


class _Started(Generic[T]):
    """Work that holds its place from the moment it begins; a call that is given up before never begins."""

    def __init__(self, place: Place, work: Callable[[], T]) -> None:
        self._place = place
        self._work = work
        self._lock = threading.Lock()
        self._may_begin = True

    def give_up(self) -> None:
        with self._lock:
            self._may_begin = False

    def __call__(self) -> T:
        with self._lock:
            if not self._may_begin:
                raise RuntimeError("given up before it began")  # nobody is left to see it
            self._place.begin()
        _waited_for.set(lambda: self._may_begin)  # in a context of this thread's own
        try:
            return self._work()
        finally:
            self._place.end()


TOOLS = Threads("tools", 1000)
"""What users' functions do, and how long they block, is theirs."""
APPROVALS = Threads("approvals", 1000)
"""A human may take a day."""
STORES = Threads("stores", 16)
GRAMMARS = Threads("grammars", 4)
PROMPTS = Threads("prompts", 4)
"""Rendering and tokenising."""
FORMS = Threads("forms", 4)
"""Searching for answers that keep the rules of a form."""
REQUESTS = Threads("requests", 4)
"""Reading the bodies of a server's requests."""
ENGINES = Threads("engines", 16)
"""Starting and stopping."""
