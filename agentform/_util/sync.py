"""Running async code from code that is not."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio

__all__ = ["run_blocking"]

T = TypeVar("T")


def run_blocking(main: Callable[[], Awaitable[T]]) -> T:
    """Run an async function to its end, in a thread of its own where this one already runs an event loop."""
    if not _in_event_loop():
        return anyio.run(main)
    outcome: list[T] = []
    failure: list[BaseException] = []

    def target() -> None:
        try:
            outcome.append(anyio.run(main))
        except BaseException as error:
            failure.append(error)

    thread = threading.Thread(target=target, name="agentform-sync")
    thread.start()
    thread.join()
    if failure:
        raise failure[0]
    return outcome[0]


def _in_event_loop() -> bool:
    try:
        anyio.get_current_task()
    except RuntimeError:
        return False
    return True
