"""Runs: ordered half-open ranges `[start, stop)` of KV positions, the way every layer names where tokens live.

::

    tokens   t0 t1 t2 t3 t4 t5 t6
    runs     [40, 43)  [7, 11)          t0..t2 at 40, 41, 42; t3..t6 at 7, 8, 9, 10
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

__all__ = ["Run", "Runs", "count", "cut", "end_of", "join", "positions"]

Run: TypeAlias = tuple[int, int]
Runs: TypeAlias = tuple[Run, ...]


def count(runs: Runs) -> int:
    """Number of positions in `runs`."""
    return sum(stop - start for start, stop in runs)


def join(*parts: Runs) -> Runs:
    """The parts one behind the other; runs that touch become one."""
    joined: list[Run] = []
    for run in (run for part in parts for run in part):
        if joined and joined[-1][1] == run[0]:
            joined[-1] = (joined[-1][0], run[1])
        elif run[0] < run[1]:
            joined.append(run)
    return tuple(joined)


def cut(runs: Runs, at: int) -> tuple[Runs, Runs]:
    """The first `at` positions and the rest."""
    head: list[Run] = []
    for index, (start, stop) in enumerate(runs):
        size = stop - start
        if at < size:
            tail = ((start + at, stop), *runs[index + 1 :])
            return (*head, *(((start, start + at),) if at else ())), tail
        head.append((start, stop))
        at -= size
    assert at == 0, "cut beyond the end of runs"
    return tuple(head), ()


def end_of(runs: Runs) -> int | None:
    """The position behind the last one; `None` for no positions."""
    return runs[-1][1] if runs else None


def positions(runs: Runs) -> Iterable[int]:
    """Every position, in order."""
    for start, stop in runs:
        yield from range(start, stop)
