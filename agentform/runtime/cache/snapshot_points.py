"""Where one request takes snapshots of its recurrent state."""

from __future__ import annotations

import bisect
from collections.abc import Iterable

from agentform.runtime.cache.lease import Lease

__all__ = ["LEAST_GAP_TOKENS", "SnapshotPoints"]

LEAST_GAP_TOKENS = 16
"""So few tokens are run again sooner than a snapshot is kept for them."""


class SnapshotPoints:
    """Numbers of tokens behind which a snapshot is wanted, ascending, none close behind another.

    Wanted are: the boundaries that the caller named; the place where this prompt parts from others that are known;
    and the end of the prompt but for one token, which serves the same prompt again (its last token is computed for
    its logits) as well as any longer one.
    """

    def __init__(self, wanted: Iterable[int] = (), *, last: int = 0, least_gap: int = LEAST_GAP_TOKENS) -> None:
        """`last`: where the nearest snapshot is that exists already, 0 for none."""
        self._least_gap = least_gap
        self._wanted = sorted(wanted)
        self._last = last

    @classmethod
    def of(
        cls, lease: Lease, num_prompt: int, boundaries: Iterable[int], *, least_gap: int = LEAST_GAP_TOKENS
    ) -> SnapshotPoints:
        """Those of a request that was just admitted."""
        wanted = {num_prompt - 1, *boundaries}
        if lease.diverged:
            wanted.add(lease.num_matched)
        return cls(
            (point for point in wanted if lease.start < point <= num_prompt), last=lease.start, least_gap=least_gap
        )

    def want(self, point: int) -> None:
        """One more, if its place is still to come."""
        if point not in self._wanted:
            bisect.insort(self._wanted, point)

    def take(self, start: int, stop: int) -> list[int]:
        """The points in `(start, stop]`; they count as taken."""
        points = [point for point in self._wanted if start < point <= stop]
        self._wanted = [point for point in self._wanted if point > stop]
        return [point for point in points if self._claim(point)]

    def is_worth(self, point: int) -> bool:
        """Whether a snapshot at `point` would be far enough behind the last one; it counts as taken then."""
        return self._claim(point)

    def _claim(self, point: int) -> bool:
        if point - self._last < self._least_gap:
            return False
        self._last = point
        return True
