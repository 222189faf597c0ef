"""Waiting for events, and things that end with the test that started them, also when it fails.

A bound here is no claim about speed: it is there so that what never happens ends a test. Machines are slow and shared.
"""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import anyio

__all__ = ["PATIENCE_S", "Background", "background", "eventually", "process", "wait_until"]

PATIENCE_S = 240.0
"""How long anything may take on any machine; less than what the watchdog of the run allows a test."""


def wait_until(condition: Callable[[], object], what: str = "what the test waits for") -> None:
    """Wait in this thread until `condition` holds."""
    until = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < until, f"{what} did not happen within {PATIENCE_S:g} s"
        time.sleep(0.005)


async def eventually(condition: Callable[[], object]) -> None:
    """Wait in this task until `condition`, which another thread or process fulfils, holds."""
    with anyio.fail_after(PATIENCE_S):
        while not condition():  # noqa: ASYNC110 - another thread's state
            await anyio.sleep(0.005)


class Background(threading.Thread):
    """Runs `work` at once; `done` waits for its end and raises what it raised.

    A daemon: it cannot keep the program from ending.
    """

    def __init__(self, work: Callable[[], Any]) -> None:
        super().__init__(daemon=True)
        self._work = work
        self._error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            self._work()
        except BaseException as error:  # raised again where the test waits for it
            self._error = error

    def done(self) -> None:
        """Wait for the end.

        Raises:
            AssertionError: it does not end.
            BaseException: what the work raised.
        """
        self.join(PATIENCE_S)
        assert not self.is_alive(), f"a thread still runs after {PATIENCE_S:g} s"
        if self._error is not None:
            raise self._error


@contextmanager
def background(*works: Callable[[], Any]) -> Iterator[list[Background]]:
    """Work in threads of its own, started together; leaving the block waits for all of them."""
    threads = [Background(work) for work in works]
    yield threads
    for thread in threads:
        thread.done()


@contextmanager
def process(command: Sequence[object], **options: Any) -> Iterator[subprocess.Popen[Any]]:
    """A process that leaving the block ends, however it is left."""
    started = subprocess.Popen([str(word) for word in command], **options)
    try:
        yield started
    finally:
        started.kill()  # nothing happens to one that has ended
        started.wait(PATIENCE_S)
