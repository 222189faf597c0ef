"""One piece of work for every row: several at once, results in the rows' order, and errors that stay with their row."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, Generic, TypeVar

import anyio

from agentform._util.gather import at_once
from agentform.errors import (
    AgentformError,
    CallError,
    ContextOverflow,
    DeadlineExceeded,
    InvalidInput,
    InvalidRequest,
)

__all__ = ["RowResult", "each_row"]

T = TypeVar("T")
_GROUP = 8
"""Times the rows that are worked on at once: a group, at whose end some wait for the last ones."""
_OF_THE_ROW = (CallError, InvalidInput, ContextOverflow, DeadlineExceeded, InvalidRequest)
"""What is wrong with one row; other errors end the work, since the next row would meet them too."""


@dataclass(frozen=True, kw_only=True)
class RowResult(Generic[T]):
    """A row and what became of it: a result, or the error that was met."""

    number: int
    """From 0 on."""
    source: Any
    """The row as it was given."""
    result: T | None = None
    error: AgentformError | None = None

    @property
    def ok(self) -> bool:
        """Whether there is a result."""
        return self.error is None

    def unwrap(self) -> T:
        """The result.

        Raises:
            AgentformError: there is none; it is what was met.
        """
        if self.result is None:
            raise self.error or InvalidInput(f"row {self.number} has no result")
        return self.result


async def each_row(
    work: Callable[[Any], Awaitable[T]], rows: Iterable[tuple[int, Any]], *, num_at_once: int
) -> AsyncGenerator[RowResult[T], None]:
    """What `work` makes of each numbered row, in their order; whoever may leave early has to close it.

    The first row is done alone: it measures and caches what the others then share. The others are done in groups, so
    that no more than a group of results is ever waiting to be taken.

    Raises:
        InvalidInput: `num_at_once` is below 1.
        EngineError: what no other row would be spared.
    """
    if num_at_once < 1:
        raise InvalidInput(f"at least one row must be worked on at a time; got {num_at_once}")
    waiting = iter(rows)
    for first in waiting:
        yield await _done(work, *first)
        break
    room = anyio.Semaphore(num_at_once)
    while batch := list(islice(waiting, num_at_once * _GROUP)):
        for row in await at_once([partial(_in_room, room, work, *each) for each in batch]):
            yield row


async def _in_room(
    room: anyio.Semaphore, work: Callable[[Any], Awaitable[T]], number: int, source: Any
) -> RowResult[T]:
    async with room:
        return await _done(work, number, source)


async def _done(work: Callable[[Any], Awaitable[T]], number: int, source: Any) -> RowResult[T]:
    try:
        return RowResult(number=number, source=source, result=await work(source))
    except _OF_THE_ROW as error:
        return RowResult(number=number, source=source, error=error)
