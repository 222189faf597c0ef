"""Several requests at the same time, such as an engine computes in the same steps."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import anyio

__all__ = ["at_once"]

T = TypeVar("T")


async def at_once(work: Sequence[Callable[[], Awaitable[T]]]) -> list[T]:
    """What each of `work` returns, in their order.

    Raises:
        Exception: what the first that fails raises; the others are cancelled.
    """
    done: dict[int, T] = {}
    failures: list[Exception] = []

    async def run(number: int) -> None:
        try:
            done[number] = await work[number]()
        except Exception as error:
            failures.append(error)
            group.cancel_scope.cancel()

    async with anyio.create_task_group() as group:
        for number in range(len(work)):
            group.start_soon(run, number)
    if failures:
        raise failures[0]
    return [done[number] for number in range(len(work))]
