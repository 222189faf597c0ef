"""Work that cannot be interrupted, waited for only so long: after that it is left to end by itself."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Generic, TypeVar

from agentform._util.threads import is_given_up

__all__ = ["OutOfTime", "TooBusy", "attempt"]

T = TypeVar("T")
_LOOK_S = 0.05
_MOST_WALL = 10
"""Seconds on the clock for each of the processor, where others use it too."""


class OutOfTime(Exception):
    """The work took longer than it may, or nobody waits for it any more; its thread goes on alone."""


class TooBusy(OutOfTime):
    """The clock ran out before the work had its processor time: others had it, and the work may be quick."""


def attempt(work: Callable[[], T], cpu_s: float) -> T:
    """What `work` returns, run in a thread of its own for at most so many seconds of processor time.

    Raises:
        OutOfTime: it did not end within them.
        TooBusy: it did not get them within a multiple of them.
    """
    running = _Running(work)
    thread = threading.Thread(target=running, name="agentform grammar", daemon=True)
    thread.start()
    started = time.monotonic()
    while not running.ended.wait(_LOOK_S):
        if _cpu_s(thread) > cpu_s or is_given_up():
            raise OutOfTime
        if time.monotonic() - started > _MOST_WALL * cpu_s:
            raise TooBusy
    return running.result()


class _Running(Generic[T]):
    def __init__(self, work: Callable[[], T]) -> None:
        self._work = work
        self._made: list[T] = []
        self._error: BaseException | None = None
        self.ended = threading.Event()

    def __call__(self) -> None:
        try:
            self._made.append(self._work())
        except BaseException as error:
            self._error = error
        finally:
            self.ended.set()

    def result(self) -> T:
        if self._error is not None:
            raise self._error
        return self._made[0]


def _cpu_s(thread: threading.Thread) -> float:
    """Processor time of another thread; 0 where the system does not tell, or when it has just ended."""
    with suppress(OSError, AttributeError, TypeError):
        return time.clock_gettime(time.pthread_getcpuclockid(thread.ident))  # type: ignore[arg-type] # pyright: ignore
    return 0.0
