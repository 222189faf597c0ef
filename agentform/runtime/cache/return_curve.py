"""Whether keeping what was used last is the right thing for how conversations come back.

The share of returns that a cache of the N conversations used last serves, over N, is a curve (see `working_set`).
Where conversations come round one after the other, more of them than there is room for, it is a cliff: it stays at the
bottom up to the size at which all fit, since each has gone just before it comes back. Any part of them that is held on
to would be found, so that the *hull* of the curve, the straight line across the cliff, is within reach (Beckmann and
Sanchez, Talus: a simple way to remove cliffs in cache performance, 2015). Where the curve is its own hull, as for
agents that go on while they are at it, nothing is to be gained, and nothing is changed.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace

from agentform._util.lru import BoundedDict
from agentform.runtime.cache.outlook import RECENCY, Outlook

__all__ = ["Cliff", "ReturnCurve", "cliff"]

_MOST_KEYS = 1 << 16
_REMEMBERED = 2048.0
"""Returns after which what was seen so far counts half."""
_FEWEST_HELD = 4
_LEAST_GAIN = 0.1
_USES_PER_LOOK = 16
_RESUMED_SINCE = 256
"""Requests that resume where their conversation ended, after which none is expected to go back any more."""


@dataclass(frozen=True, kw_only=True)
class Cliff:
    """Where the curve runs below its hull."""

    near: int
    """Conversations held at its lower end."""
    far: int
    """Conversations held at its upper end."""
    near_share: float
    """Share of returns that its lower end serves."""
    gain: float
    """Share of returns by which the hull is above the curve at the size that was asked about."""


def cliff(distances: Mapping[int, float], slots: int) -> Cliff | None:
    """The line of the hull over `slots` conversations, given returns by reuse distance; `None` beyond all returns."""
    points = _curve(distances)
    served = max((share for size, share in points if size <= slots), default=0.0)
    for (near, low), (far, high) in itertools.pairwise(_hull(points)):
        if near <= slots < far:
            reached = low + (high - low) * (slots - near) / (far - near)
            return Cliff(near=near, far=far, near_share=low, gain=reached - served)
    return None


class ReturnCurve:
    """Follows returns as they come; recent ones count most."""

    def __init__(self) -> None:
        self._distances: dict[int, float] = {}
        self._total = 0.0
        self._last_used: BoundedDict[Hashable, float] = BoundedDict(_MOST_KEYS)
        self._outlook = RECENCY
        self._uses_since = _USES_PER_LOOK
        self._resumed_since = _RESUMED_SINCE

    @property
    def goes_back(self) -> bool:
        """Whether conversations were taken up again before their end lately."""
        return self._resumed_since < _RESUMED_SINCE

    def resumed(self, *, before_end: bool) -> None:
        """A request found the state that it resumes from, at the end of what its conversation had or before it."""
        self._resumed_since = 0 if before_end else self._resumed_since + 1

    def used(self, key: Hashable, distance: int | None, now: float) -> None:
        """A conversation was used; `distance` is what `ReuseDistances.use` said of it."""
        self._last_used[key] = now
        self._uses_since += 1
        if not distance:
            return
        self._distances[distance] = self._distances.get(distance, 0.0) + 1
        self._total += 1
        if self._total >= _REMEMBERED:
            self._distances = {each: num / 2 for each, num in self._distances.items() if num > 0.5}
            self._total = sum(self._distances.values())

    def outlook(self, num_held: Callable[[], int]) -> Outlook:
        """What to expect of a cache that holds the ends of `num_held` conversations; looked at every few uses."""
        if self._uses_since >= _USES_PER_LOOK:
            self._uses_since = 0
            self._outlook = self._look(num_held())
        return replace(self._outlook, goes_back=self.goes_back)

    def _look(self, slots: int) -> Outlook:
        found = cliff(self._distances, slots) if slots >= _FEWEST_HELD and self._total else None
        # A share that was seen n times is off by up to one over the root of n.
        if found is None or found.gain < max(_LEAST_GAIN, 2 / math.sqrt(self._total)):
            return RECENCY
        times = [time for _, time in self._last_used.items()]
        round_of = times[-min(found.far, len(times)) :]
        pause_s = (round_of[-1] - round_of[0]) / max(1, len(round_of) - 1)
        return Outlook(soon=found.near_share, round_since=round_of[0], pause_s=min(1.0, pause_s or 1.0))


def _curve(distances: Mapping[int, float]) -> list[tuple[int, float]]:
    """Sizes at which the curve rises, and the share of returns served from there on."""
    total, ordered = sum(distances.values()), sorted(distances)
    sums = itertools.accumulate(distances[each] for each in ordered)
    return [(0, 0.0), *((each + 1, reached / total) for each, reached in zip(ordered, sums, strict=True))]


def _hull(points: Sequence[tuple[int, float]]) -> list[tuple[int, float]]:
    """The corners of the least concave line above the points, which are in order (Andrew's monotone chain, 1979)."""
    corners: list[tuple[int, float]] = []
    for x, y in points:
        while len(corners) > 1 and not _turns_down(corners[-2], corners[-1], (x, y)):
            corners.pop()
        corners.append((x, y))
    return corners


def _turns_down(first: tuple[int, float], middle: tuple[int, float], last: tuple[int, float]) -> bool:
    before = (middle[1] - first[1]) * (last[0] - middle[0])
    after = (last[1] - middle[1]) * (middle[0] - first[0])
    return before > after
