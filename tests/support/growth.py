"""How work grows with what it is given: a property of the program, where seconds are one of the machine."""

from __future__ import annotations

import time
from collections.abc import Callable

__all__ = ["growth"]


def growth(work: Callable[[int], object], size: int, *, times: int = 4, tries: int = 3) -> float:
    """How much more processor time `times` the size takes: `times` where it grows linearly, its square where not."""

    def least(number: int) -> float:
        return min(_processor_seconds(work, number) for _ in range(tries))

    return least(size * times) / least(size)


def _processor_seconds(work: Callable[[int], object], number: int) -> float:
    started = time.process_time()
    work(number)
    return time.process_time() - started
