"""Ranges: ordered half-open ranges `[start, stop)` of KV positions, the way every layer names where tokens live.

::

    tokens   t0 t1 t2 t3 t4 t5 t6
    ranges   [40, 43)  [7, 11)          t0..t2 at 40, 41, 42; t3..t6 at 7, 8, 9, 10
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

__all__ = ["PositionRange", "PositionRanges", "count", "cut", "end_of", "join", "positions"]

PositionRange: TypeAlias = tuple[int, int]
PositionRanges: TypeAlias = tuple[PositionRange, ...]


def count(runs: PositionRanges) -> int:
    """Number of positions in `runs`."""
    return sum(stop - start for start, stop in runs)


def join(*parts: PositionRanges) -> PositionRanges:
    """The parts one after the other; ranges that touch become one."""
    joined: list[PositionRange] = []
    for start, stop in (each for part in parts for each in part):
        if joined and joined[-1][1] == start:
            joined[-1] = (joined[-1][0], stop)
        elif start < stop:
            joined.append((start, stop))
    return tuple(joined)


def cut(runs: PositionRanges, at: int) -> tuple[PositionRanges, PositionRanges]:
    """The first `at` positions and the rest."""
    head: list[PositionRange] = []
    for index, (start, stop) in enumerate(runs):
        size = stop - start
        if at < size:
            tail = ((start + at, stop), *runs[index + 1 :])
            return (*head, *(((start, start + at),) if at else ())), tail
        head.append((start, stop))
        at -= size
    assert at == 0, "cut beyond the end of runs"
    return tuple(head), ()


def end_of(runs: PositionRanges) -> int | None:
    """The position after the last one; `None` for no positions."""
    return runs[-1][1] if runs else None


def positions(runs: PositionRanges) -> Iterable[int]:
    """Every position, in order."""
    for start, stop in runs:
        yield from range(start, stop)
