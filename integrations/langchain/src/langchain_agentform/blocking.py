"""Async work for LangChain's sync methods, and for its async ones that hand out items as they come."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, TypeVar, cast

from anyio.from_thread import start_blocking_portal

__all__ = ["aiterate", "iterate", "run"]

T = TypeVar("T")

Work = Callable[[Callable[[T], None]], Awaitable[object]]
"""Does its work and hands out items by the function that it is given."""

_END: Any = object()


def run(main: Callable[[], Awaitable[T]]) -> T:
    """Run an async function to its end in an event loop of its own, beside whatever loop this thread may run."""
    with start_blocking_portal() as portal:
        return portal.call(main)


def iterate(work: Work[T]) -> Generator[T]:
    """What `work` hands out, as it comes. Closing the generator cancels the work."""
    items: SimpleQueue[T] = SimpleQueue()

    async def main() -> None:
        try:
            await work(items.put)
        finally:
            items.put(_END)

    with start_blocking_portal() as portal:
        done = portal.start_task_soon(main)
        try:
            while (item := items.get()) is not _END:
                yield item
            done.result()
        finally:
            done.cancel()


async def aiterate(work: Work[T]) -> AsyncGenerator[T]:
    """The same in a running asyncio loop, LangChain's own.

    The work is a task and not a task group: an async generator may be closed by another task than read it.
    """
    items: asyncio.Queue[T] = asyncio.Queue()

    async def main() -> None:
        try:
            await work(items.put_nowait)
        finally:
            items.put_nowait(_END)

    task = asyncio.create_task(main())
    try:
        while (item := await items.get()) is not cast("T", _END):
            yield item
        await task
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError, Exception):
            await task
