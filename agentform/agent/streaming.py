"""Watching work while it runs: its events one by one, then its result."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar, cast

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream

from agentform.errors import InvalidInput
from agentform.events import Emit, Event

if TYPE_CHECKING:
    from anyio.from_thread import BlockingPortal

__all__ = ["Streaming", "StreamingSync", "streaming", "streaming_sync"]

T = TypeVar("T")


@dataclass(kw_only=True)
class _Outcome(Generic[T]):
    """How the work ended, if it did."""

    result: T | None = None
    failure: Exception | None = None

    def raise_failure(self) -> None:
        """Raise what ended the work, once: its reader may have handled it."""
        failure, self.failure = self.failure, None
        if failure is not None:
            raise failure


class Streaming(Generic[T]):
    """Work in progress: iterate over its events, then read `result`."""

    def __init__(self, events: MemoryObjectReceiveStream[Event], outcome: _Outcome[T]) -> None:
        self._events = events
        self._outcome = outcome

    def __aiter__(self) -> Streaming[T]:
        return self

    async def __anext__(self) -> Event:
        try:
            return await self._events.receive()
        except anyio.EndOfStream:
            self._outcome.raise_failure()
        raise StopAsyncIteration

    @property
    def result(self) -> T:
        """The result, once the events have ended.

        Raises:
            InvalidInput: the work is not over.
        """
        if self._outcome.result is None:
            raise InvalidInput("the work is not over: iterate over its events to the end first")
        return self._outcome.result


@asynccontextmanager
async def streaming(work: Callable[[Emit], Awaitable[T]]) -> AsyncGenerator[Streaming[T], None]:
    """Run `work`, which is handed what to emit its events with. Leaving the block early cancels it.

    Raises:
        Exception: what `work` raises, where the events are read.
    """
    send, receive = anyio.create_memory_object_stream[Event](0)
    outcome = _Outcome[T]()

    async def produce() -> None:
        async with send:
            try:
                outcome.result = await work(send.send)
            except Exception as error:
                outcome.failure = error

    failure: BaseException | None = None
    try:
        async with receive, anyio.create_task_group() as group:
            group.start_soon(produce)
            yield Streaming(receive, outcome)
            group.cancel_scope.cancel()
    except BaseExceptionGroup as errors:
        failure = _only(errors)
    if failure is not None:
        raise failure
    outcome.raise_failure()


class StreamingSync(Generic[T]):
    """`Streaming` for code without an event loop: iterate over its events, then read `result`."""

    def __init__(self, inner: Streaming[T], portal: BlockingPortal) -> None:
        self._inner = inner
        self._portal = portal

    def __iter__(self) -> StreamingSync[T]:
        return self

    def __next__(self) -> Event:
        event = self._portal.call(self._next)
        if event is None:
            raise StopIteration
        return event

    async def _next(self) -> Event | None:
        return await anext(self._inner, None)

    @property
    def result(self) -> T:
        """See `Streaming.result`."""
        return self._inner.result


@contextmanager
def streaming_sync(
    stream: Callable[[], AbstractAsyncContextManager[Streaming[T]]],
) -> Generator[StreamingSync[T], None, None]:
    """Enter `stream` in an event loop of its own, in a thread; works inside a running loop too.

    Leaving the block early cancels the work.

    Raises:
        Exception: what the work raises, where the events are read.
    """
    from anyio.from_thread import start_blocking_portal  # here: it is not needed to import agentform

    with start_blocking_portal() as portal, portal.wrap_async_context_manager(stream()) as inner:
        yield StreamingSync(inner, portal)


def _only(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    """The one error that ended the block; a task group wraps what its tasks raised."""
    if len(errors.exceptions) != 1:
        return errors
    inner = errors.exceptions[0]
    return _only(cast("BaseExceptionGroup[BaseException]", inner)) if isinstance(inner, BaseExceptionGroup) else inner
