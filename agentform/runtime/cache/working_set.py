"""How many conversations come back, and how many others were there in between: the working set, in one pass.

The *reuse distance* of a return is the number of other conversations that were active since the same one was last. A
cache that holds the N used last serves exactly the returns of distance below N, so one histogram gives the hit rate of
every size (Mattson et al., Evaluation techniques for storage hierarchies, 1970). A Fenwick tree over the order of last
uses counts the others in between in logarithmic time.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field

from agentform._util.lru import BoundedDict

__all__ = ["ReuseDistances", "WorkingSet", "rounded_distance"]

_MOST_KEYS = 1 << 16


@dataclass(frozen=True, kw_only=True)
class WorkingSet:
    """What was seen of a stream of conversations."""

    distances: Mapping[int, int] = field(default_factory=dict[int, int])
    """Returns by reuse distance."""
    first_uses: int = 0
    """Uses that no cache could serve, since the conversation was new."""

    @property
    def uses(self) -> int:
        """All uses."""
        return self.first_uses + sum(self.distances.values())

    @property
    def slots_needed(self) -> int:
        """So many conversations have to be held for every return to be a hit."""
        return max(self.distances, default=-1) + 1

    def hit_rate(self, slots: int) -> float | None:
        """Share of uses that a cache of the `slots` conversations used last serves; `None` without uses."""
        hits = sum(num for distance, num in self.distances.items() if distance < slots)
        return hits / self.uses if self.uses else None

    def curve(self) -> list[tuple[int, float]]:
        """Slots and hit rate wherever the rate rises."""
        ordered = sorted(self.distances.items())
        hits = itertools.accumulate(num for _, num in ordered)
        return [(distance + 1, total / self.uses) for (distance, _), total in zip(ordered, hits, strict=True)]


def rounded_distance(distance: int) -> int:
    """The distance up to the next of sixteen steps from one power of two to the next: few enough to be labels."""
    step = 1 << max(0, distance.bit_length() - 5)
    return -(-distance // step) * step


class ReuseDistances:
    """Counts a stream as it comes. A conversation that goes on without another in between is one use.

    The conversations used last are remembered, as many as `most_keys`; one that comes back after more counts as new.
    """

    def __init__(self, *, most_keys: int = _MOST_KEYS) -> None:
        self._distances: Counter[int] = Counter()
        self._first_uses = 0
        self._places: BoundedDict[Hashable, int] = BoundedDict(
            most_keys, dropped=lambda _, place: self._tree.add(place, -1)
        )
        self._tree = _Fenwick(2 * most_keys if most_keys < 1024 else 1024)
        self._next = 0

    def use(self, key: Hashable) -> int | None:
        """Count a use; returns the reuse distance, `None` for a new conversation."""
        place = self._places.get(key)
        if place is not None and place == self._next - 1:
            return 0
        distance = None
        if place is None:
            self._first_uses += 1
        else:
            distance = len(self._places) - self._tree.up_to(place)
            self._distances[distance] += 1
            self._tree.add(place, -1)
        self._put(key)
        return distance

    def working_set(self) -> WorkingSet:
        """The counts so far."""
        return WorkingSet(distances=dict(self._distances), first_uses=self._first_uses)

    def _put(self, key: Hashable) -> None:
        self._places[key] = self._next
        self._tree.add(self._next, 1)
        self._next += 1
        if self._next == len(self._tree):
            self._renumber()

    def _renumber(self) -> None:
        """Close the gaps that returns left; a tree that is more than half full doubles."""
        keys = [key for key, _ in self._places.items()]
        size = len(self._tree) * (2 if 2 * len(keys) >= len(self._tree) else 1)
        self._tree = _Fenwick(size)
        self._next = len(keys)
        for place, key in enumerate(keys):
            self._places[key] = place
            self._tree.add(place, 1)


class _Fenwick:
    """Counts at places `[0, size)`, and their sums from the first on (Fenwick, 1994)."""

    def __init__(self, size: int) -> None:
        self._sums: list[int] = [0] * (size + 1)

    def __len__(self) -> int:
        return len(self._sums) - 1

    def add(self, place: int, num: int) -> None:
        at = place + 1
        while at < len(self._sums):
            self._sums[at] += num
            at += at & -at

    def up_to(self, place: int) -> int:
        """Sum over places `[0, place]`."""
        total, at = 0, place + 1
        while at:
            total += self._sums[at]
            at -= at & -at
        return total
