"""Hands out KV positions from a fixed pool; a page is one position, since attention KV is reusable per token."""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable

from agentform.runtime.cache.ranges import PositionRange, PositionRanges, join

__all__ = ["PagePool"]


class PagePool:
    """Free positions as sorted, disjoint, non-touching half-open intervals inside `[0, capacity)`.

    A long row of positions for one conversation is worth much: attention reads it through a view. So an allocation
    extends right after a given position where it can, and a new conversation starts in the middle of the widest
    gap, which leaves the conversation before it room to grow.
    """

    def __init__(self, capacity: int) -> None:
        assert capacity > 0, "a pool needs positions"
        self._capacity = capacity
        self._free: list[PositionRange] = [(0, capacity)]
        # Widest gap first; holds every free interval, and some that are none any more until they come up.
        self._by_width: list[tuple[int, int]] = [(-capacity, 0)]
        self._num_free = capacity
        self._told: Callable[[PositionRanges], None] = _ignore

    @property
    def capacity(self) -> int:
        """Positions in the pool, free or not."""
        return self._capacity

    @property
    def num_free(self) -> int:
        """Positions that are free now."""
        return self._num_free

    def alloc(self, num: int, *, after: int | None = None) -> PositionRanges | None:
        """Take `num` positions, as few runs as possible; `None` when fewer are free.

        `after` is the position right after what the new positions continue.
        The caller owns the positions until it hands them to `free`.
        """
        if num > self._num_free:
            return None
        taken: PositionRanges = self._extend(after, num) if num and after is not None else ()
        left = num - sum(stop - start for start, stop in taken)
        while left:
            run = self._take(left)
            taken = join(taken, (run,))
            left -= run[1] - run[0]
        return taken

    def free(self, runs: PositionRanges) -> None:
        """Give positions back; a position that is already free is a bug of the caller."""
        for run in runs:
            self._release(run)
        self._told(runs)

    def freed_to(self, told: Callable[[PositionRanges], None]) -> None:
        """From now on `told` is given all positions that are given back."""
        self._told = told

    def integrity(self) -> None:
        """Assert the invariants stated on the class."""
        previous = -1
        for start, stop in self._free:
            assert previous < start < stop <= self._capacity, "free intervals overlap, touch or leave the pool"
            previous = stop
        assert {(start - stop, start) for start, stop in self._free} <= set(self._by_width), "an interval not ranked"
        assert self._num_free == sum(stop - start for start, stop in self._free), "free count is off"

    def free_runs(self) -> PositionRanges:
        """The free intervals, ascending."""
        return tuple(self._free)

    def _extend(self, after: int, num: int) -> PositionRanges:
        index = bisect_left(self._free, (after, 0))
        if index == len(self._free) or self._free[index][0] != after:
            return ()
        return (self._carve(index, after, min(num, self._free[index][1] - after)),)

    def _take(self, num: int) -> PositionRange:
        index = self._widest()
        start, stop = self._free[index]
        room = stop - start - num
        if room <= 0:
            return self._carve(index, start, stop - start)
        # At position 0 nobody in front can want the room.
        return self._carve(index, start + room // 2 if start else start, num)

    def _widest(self) -> int:
        """Index of the widest free interval, the first of several."""
        while True:
            width, start = self._by_width[0]
            index = bisect_left(self._free, (start, 0))
            if index < len(self._free) and self._free[index] == (start, start - width):
                return index
            heapq.heappop(self._by_width)

    def _note(self, run: PositionRange) -> None:
        heapq.heappush(self._by_width, (run[0] - run[1], run[0]))
        if len(self._by_width) > 4 * len(self._free) + 64:
            self._by_width = [(start - stop, start) for start, stop in self._free]
            heapq.heapify(self._by_width)

    def _carve(self, index: int, at: int, num: int) -> PositionRange:
        start, stop = self._free[index]
        rest = [run for run in ((start, at), (at + num, stop)) if run[0] < run[1]]
        self._free[index : index + 1] = rest
        for run in rest:
            self._note(run)
        self._num_free -= num
        return (at, at + num)

    def _release(self, run: PositionRange) -> None:
        start, stop = run
        assert 0 <= start < stop <= self._capacity, f"freed positions {run} are not in the pool"
        index = bisect_right(self._free, run)
        before = self._free[index - 1] if index else None
        after = self._free[index] if index < len(self._free) else None
        assert before is None or before[1] <= start, f"positions {run} freed twice"
        assert after is None or stop <= after[0], f"positions {run} freed twice"
        if after is not None and after[0] == stop:
            self._free.pop(index)
            stop = after[1]
        if before is not None and before[1] == start:
            self._free.pop(index - 1)
            start = before[0]
        insort(self._free, (start, stop))
        self._note((start, stop))
        self._num_free += run[1] - run[0]


def _ignore(runs: PositionRanges) -> None:
    del runs
