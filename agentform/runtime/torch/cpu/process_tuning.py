"""Work of torch's in a thread that ends, so that the threads it computed with end too.

OpenMP gives each thread that computes in parallel helpers of its own, which live as long as that thread. Once a process
has more of them than cores, GNU's OpenMP lets them sleep between two operations instead of waiting awake, and an
operation of a decode step costs less than waking one up: on two cores a step took 1.6 times as long because the thread
that had loaded the model kept its helpers (docs/measurements.md).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import TypeVar

__all__ = ["in_short_thread"]

T = TypeVar("T")


def in_short_thread(function: Callable[[], T]) -> T:
    """The result of `function`, or what it raises; its thread has ended by then."""
    done: Future[T] = Future()

    def run() -> None:
        try:
            done.set_result(function())
        except BaseException as error:
            done.set_exception(error)

    thread = threading.Thread(target=run, name="agentform-load", daemon=True)
    thread.start()
    wait([done])  # an interrupt ends this at once, without the thread
    thread.join()
    return done.result()
