"""Where one request takes snapshots of its recurrent state."""

from __future__ import annotations

import bisect
from collections.abc import Iterable

__all__ = ["LEAST_GAP_TOKENS", "SnapshotPoints"]

LEAST_GAP_TOKENS = 16
"""So few tokens are run again sooner than a snapshot is kept for them."""

_TAIL_TOKENS = 128
_LONG_TOKENS = 8 * _TAIL_TOKENS


class SnapshotPoints:
    """Numbers of tokens after which a snapshot is wanted, ascending, none close after another.

    Wanted are: the boundaries that the caller named; the place where this prompt parts from others that are known;
    and the end of the prompt but for one token, which serves the same prompt again (its last token is computed for
    its logits) as well as any longer one. A long stretch of new tokens gets one a little before its end too: a prompt
    that is written again with another last message, which boundaries would have told apart, then costs that tail and
    not the stretch (measured with `python -m benchmarks traces`).
    """

    def __init__(self, wanted: Iterable[int] = (), *, last: int = 0) -> None:
        """`last`: where the nearest snapshot is that exists already, 0 for none."""
        self._wanted = sorted(set(wanted))
        self._last = last

    @classmethod
    def of(cls, num_prompt: int, boundaries: Iterable[int], *, start: int, fork: int | None = None) -> SnapshotPoints:
        """Those of a request that starts after `start` tokens and parts from known ones after `fork`."""
        end = num_prompt - 1
        wanted = {end, *boundaries, *(end - tail for tail in _tails(end - start))}
        if fork is not None:
            wanted.add(fork)
        return cls((point for point in wanted if start < point <= num_prompt), last=start)

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
        """Whether a snapshot at `point` would be far enough after the last one; it counts as taken then."""
        return self._claim(point)

    def _claim(self, point: int) -> bool:
        if point - self._last < LEAST_GAP_TOKENS:
            return False
        self._last = point
        return True


def _tails(num_new: int) -> list[int]:
    """How far before the end a long stretch of new tokens gets a snapshot besides the one at its end."""
    return [_TAIL_TOKENS] if num_new > _LONG_TOKENS else []
