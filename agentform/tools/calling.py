"""Calls a user's function so that nothing it does ends more than its own call.

::

    plain function  -> worker thread, its generator read there too
    async function  -> the event loop
    async generator -> the event loop

`SystemExit`, `CancelledError` and their like, raised by the function itself, are its failure and no business of the
program's; a real cancellation and Ctrl-C pass through.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterable, Awaitable, Callable, Coroutine, Generator, Iterator
from contextlib import aclosing
from functools import partial
from itertools import islice
from typing import Any, Generic, TypeVar, cast

import anyio.lowlevel

from agentform._util.text import said
from agentform._util.threads import TOOLS, Place
from agentform.errors import ToolAborted

__all__ = ["called", "in_program"]

T = TypeVar("T")

_MOST_PARTS = 10_000
"""Of a generator; what follows is left out, since it may have no end."""
_CUT = f"[cut here: more than {_MOST_PARTS:,} parts]"


async def called(name: str, fn: Callable[[], Any], *, place: Place | None) -> Any:
    """What the function returns, called in a thread if there is a `place` for one; of a generator the parts, as a list.

    Raises:
        ToolAborted: it raised what is meant to end a program, a task or an iteration.
        Exception: whatever else it raises, as it is.
    """

    async def work() -> Any:
        returned = fn() if place is None else await _in_thread(name, fn, place.run)
        if inspect.isawaitable(returned):
            returned = await returned
        if isinstance(returned, AsyncIterable):
            return await _async_parts(cast("AsyncIterable[Any]", returned))
        # The generator of an async function is read in a thread as well: it may block.
        if not isinstance(returned, Iterator):
            return returned
        return await _in_thread(name, lambda: returned, TOOLS.run if place is None else place.run)

    return await in_program(name, work)


async def in_program(name: str, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """What `work` returns; what it raises is an `Exception`, unless the program or this task is really to end.

    Raises:
        ToolAborted: as `called`.
    """
    try:
        return await _Driven(name, work())
    except (Exception, KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:
        if _is_being_cancelled() or _has(error, KeyboardInterrupt):
            raise
        await anyio.lowlevel.checkpoint_if_cancelled()
        raise ToolAborted(name, type(error).__name__, said(error)) from error


class _Driven(Generic[T]):
    """A coroutine, driven step by step: so a `GeneratorExit` that it raises is told from the one that ends it."""

    def __init__(self, name: str, work: Coroutine[Any, Any, T]) -> None:
        self._name = name
        self._work = work

    def __await__(self) -> Generator[Any, Any, T]:
        step: Callable[[], Any] = partial(self._work.send, None)
        while True:
            try:
                waits_for = step()
            except StopIteration as end:
                return end.value
            except GeneratorExit as error:
                raise ToolAborted(self._name, "GeneratorExit", said(error)) from error
            try:
                step = partial(self._work.send, (yield waits_for))
            except GeneratorExit:
                self._work.close()
                raise
            except BaseException as error:
                step = partial(self._work.throw, error)


async def _in_thread(name: str, fn: Callable[[], Any], run: Callable[[Callable[[], Any]], Awaitable[Any]]) -> Any:
    def work() -> Any:
        try:
            returned = fn()
            return _parts(cast("Iterator[Any]", returned)) if isinstance(returned, Iterator) else returned
        except Exception as error:
            if not isinstance(error, (StopIteration, StopAsyncIteration)):
                raise
            raise ToolAborted(name, type(error).__name__, said(error)) from error
        except BaseException as error:
            raise ToolAborted(name, type(error).__name__, said(error)) from error

    return await run(work)


def _parts(iterator: Iterator[Any]) -> list[Any]:
    parts = list(islice(iterator, _MOST_PARTS + 1))
    if len(parts) > _MOST_PARTS:
        parts[-1] = _CUT
        close = getattr(iterator, "close", None)
        if callable(close):
            close()
    return parts


async def _async_parts(iterable: AsyncIterable[Any]) -> list[Any]:
    parts: list[Any] = []
    if not inspect.isasyncgen(iterable):
        return await _read(iterable, parts)
    async with aclosing(iterable):
        return await _read(iterable, parts)


async def _read(iterable: AsyncIterable[Any], parts: list[Any]) -> list[Any]:
    async for part in iterable:
        if len(parts) == _MOST_PARTS:
            parts.append(_CUT)
            break
        parts.append(part)
        await anyio.lowlevel.checkpoint()  # one that never waits must not keep the run from ending
    return parts


def _is_being_cancelled() -> bool:
    """Whether this task is one of asyncio's that somebody has cancelled; trio tells at its checkpoints."""
    try:
        task = asyncio.current_task()
    except RuntimeError:
        return False
    return task is not None and task.cancelling() > 0


def _has(error: BaseException, kind: type[BaseException]) -> bool:
    return isinstance(error, BaseExceptionGroup) and error.subgroup(kind) is not None
