"""Carries results from the worker thread to whichever event loop asked, asyncio or trio, without blocking either."""

from __future__ import annotations

from collections import deque
from typing import Generic, TypeVar

import anyio
import anyio.lowlevel

from agentform._util.loops import loop_caller

__all__ = ["Mailbox"]

T = TypeVar("T")


class Mailbox(Generic[T]):
    """Made inside a running event loop, which alone may `get`; any thread may `put`."""

    def __init__(self) -> None:
        self._items: deque[T | BaseException] = deque()
        self._event: anyio.Event | None = None
        self._call_in_loop = loop_caller()

    def put(self, item: T | BaseException) -> None:
        """Deliver an item, or an error for `get` to raise. Never blocks; a loop that has ended is ignored."""
        self._items.append(item)
        try:
            self._call_in_loop(self._wake)
        except RuntimeError:  # the loop has ended: nobody is left to read
            self._items.clear()

    async def get(self) -> T:
        """The next item, in the order of `put`."""
        await anyio.lowlevel.checkpoint()
        while not self._items:
            self._event = anyio.Event()
            # An item that was put in between has its `_wake` still to come.
            await self._event.wait()
        item = self._items.popleft()
        if isinstance(item, BaseException):
            raise item
        return item

    def _wake(self) -> None:
        if self._event is not None:
            self._event.set()
