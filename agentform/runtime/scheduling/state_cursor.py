"""Where a request stands with its recurrent state: what its slot starts from, what warms it up, what is kept of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from agentform.runtime.cache.handle import Lease
from agentform.runtime.cache.ranges import PositionRanges
from agentform.runtime.scheduling.snapshot_placement import SnapshotPoints

__all__ = ["StateCursor"]


class StateCursor:
    """Follows the slot of one request; of a model without recurrent layers there is nothing to load and to keep.

    ::

        start ──▶ load at the next segment ──▶ warm-up until `settle` ──▶ the state after all that is computed

    Numbers are of tokens from the first of the sequence.
    """

    def __init__(self) -> None:
        self.load: PositionRanges | None = None
        """What the slot is to start from at the next segment: a snapshot, `()` for no token; `None`: what it holds."""
        self.is_broken = False
        """Whether the state in the slot is undefined."""
        self._settle: tuple[int, PositionRanges] | None = None  # end of the warm-up, the snapshot to put back there
        self._points = SnapshotPoints()
        self._is_recurrent = False

    def start(self, lease: Lease, *, num_prompt: int, boundaries: Iterable[int]) -> int:
        """Begin where the lease can resume; returns the first token that has to run, for warming up perhaps."""
        self._is_recurrent = True
        fork = lease.num_matched if lease.diverged else None
        self._points = SnapshotPoints.of(num_prompt, boundaries, start=lease.start, fork=fork)
        snapshot = lease.source.snapshot if lease.source is not None else None
        self.load = None if lease.is_live else snapshot.runs if snapshot is not None else ()
        if snapshot is None or not lease.refresh:
            return lease.start
        position = lease.start - lease.refresh
        if position:
            self._settle = lease.start, snapshot.runs
        else:  # all tokens run again, and the state is exact
            self.load = ()
        return position

    def restart(self) -> None:
        """From the first token, since the state is undefined."""
        self.load, self._settle = (), None

    def expect_fork(self, at: int) -> None:
        """Another request parts from this one at `at`: a place worth a snapshot, unless the state warms up there."""
        is_warming = self._settle is not None and at <= self._settle[0]
        if self._is_recurrent and not is_warming:
            self._points.want(at)

    @property
    def has_state(self) -> bool:
        """Whether the slot holds the state after the tokens computed so far."""
        return self.load is None and self._settle is None

    def num_warm(self, start: int) -> int:
        """Tokens from `start` on that only warm the state up."""
        return self._settle[0] - start if self._settle is not None else 0

    def settle_in(self, start: int, stop: int) -> tuple[int, PositionRanges] | None:
        """Where in a segment of `[start, stop)` the warm-up ends, and the snapshot to put back there."""
        if self._settle is None or self._settle[0] > stop:
            return None
        return self._settle[0] - start, self._settle[1]

    def saves(
        self, start: int, stop: int, room: Callable[[int], PositionRanges | None]
    ) -> tuple[tuple[int, PositionRanges], ...]:
        """Snapshots to take in `(start, stop]`, counted from `start`, where `room` has some for them."""
        rooms = [(point, room(point)) for point in self._points.take(start, stop)]
        return tuple((point - start, runs) for point, runs in rooms if runs is not None)

    def advance(self, position: int) -> bool:
        """All before `position` was computed; returns whether what was loaded is not needed any more."""
        self.load = None
        if self._settle is not None and self._settle[0] > position:
            return False
        self._settle = None
        return True

    def ends(self, position: int) -> bool:
        """Whether the state that the request leaves at `position` is worth a snapshot; it counts as taken then."""
        return self.has_state and self._points.is_worth(position)
