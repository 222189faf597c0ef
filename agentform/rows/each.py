"""One piece of work for every row: several at once, results as they are made, and errors that stay with their row."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

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
    work: Callable[[Any], Awaitable[T]],
    rows: Iterable[tuple[int, Any]],
    *,
    num_at_once: int,
    take: Callable[[RowResult[T]], None],
) -> None:
    """Do `work` for each numbered row; `take` is given every result as soon as it is there, in whatever order.

    The first row is done alone: it measures and caches what the others then share. No more rows are read than are
    worked on.

    Raises:
        InvalidInput: `num_at_once` is below 1.
        EngineError: what no other row would be spared.
    """
    if num_at_once < 1:
        raise InvalidInput(f"at least one row must be worked on at a time; got {num_at_once}")
    waiting = iter(rows)
    for first in waiting:
        take(await _done(work, *first))
        break

    async def worker() -> None:
        for number, source in waiting:
            take(await _done(work, number, source))

    await at_once([worker] * num_at_once)


async def _done(work: Callable[[Any], Awaitable[T]], number: int, source: Any) -> RowResult[T]:
    try:
        return RowResult(number=number, source=source, result=await work(source))
    except _OF_THE_ROW as error:
        return RowResult(number=number, source=source, error=error)
