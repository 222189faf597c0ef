"""What torch leaves behind in a process: threads and prepared products, both kept small."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import TypeVar

__all__ = ["bound_kernel_caches", "in_short_thread"]

T = TypeVar("T")

_CACHE_ENTRIES = 64
_CACHE_VARIABLES = ("LRU_CACHE_CAPACITY", "ONEDNN_PRIMITIVE_CACHE_CAPACITY")


def in_short_thread(function: Callable[[], T]) -> T:
    """The result of `function`, or what it raises, computed in a thread that has ended by then, and its helpers too.

    OpenMP gives each thread that computes in parallel helpers of its own, which live as long as that thread. Once a
    process has more of them than cores, GNU's OpenMP lets them sleep between two operations instead of waiting awake,
    and an operation of a decode step costs less than waking one up: on two cores a step took 1.6 times as long because
    the thread that had loaded the model kept its helpers (docs/measurements.md).
    """
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


def bound_kernel_caches() -> None:
    """Keep at most so many prepared products instead of 1,024, in torch and in oneDNN each; prompts of every length
    are a shape of their own, and a process grows by megabytes a request without it.

    Both libraries read these variables at their first product, so a process that has computed in bfloat16 before
    keeps what it has. Values that are set already stay.
    """
    for name in _CACHE_VARIABLES:
        os.environ.setdefault(name, str(_CACHE_ENTRIES))
