"""Joint assignments of independent choices, most probable first."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence

__all__ = ["best_first"]


def best_first(log_probabilities: Sequence[Sequence[float]]) -> Iterator[tuple[tuple[int, ...], float]]:
    """Every combination of one option per choice, with its summed log probability, in falling order of that sum.

    Lazy: the first n combinations of k choices cost O(n k log n) time and O(n k) memory.
    """
    if not log_probabilities:
        return
    ranked = [sorted(range(len(row)), key=lambda i, row=row: -row[i]) for row in log_probabilities]
    start: tuple[int, ...] = (0,) * len(ranked)

    def total(ranks: tuple[int, ...]) -> float:
        return sum(row[order[rank]] for row, order, rank in zip(log_probabilities, ranked, ranks, strict=True))

    heap: list[tuple[float, tuple[int, ...]]] = [(-total(start), start)]
    seen: set[tuple[int, ...]] = {start}
    while heap:
        cost, ranks = heapq.heappop(heap)
        yield tuple(order[rank] for order, rank in zip(ranked, ranks, strict=True)), -cost
        for place, rank in enumerate(ranks):
            worse = (*ranks[:place], rank + 1, *ranks[place + 1 :])
            if rank + 1 < len(ranked[place]) and worse not in seen:
                seen.add(worse)
                heapq.heappush(heap, (-total(worse), worse))
