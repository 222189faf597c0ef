"""The recurrent states of sequences: kept apart from cells, whatever is done to those.

llama.cpp moves a sequence's state along with its cells and gives up cells only where the state is not in the way. Here
cells move alone. A state that stands in the way of cells that go is set aside, and put back when its sequence goes on.
"""

from __future__ import annotations

from collections.abc import Callable

from agentform.errors import EngineError
from agentform.runtime.cache.ranges import PositionRanges
from agentform.runtime.llama_cpp.context import LlamaContext

__all__ = ["StatefulCells"]


class StatefulCells:
    """`Cells` of a model with recurrent layers; also keeps snapshots, by the first of their positions."""

    def __init__(self, context: LlamaContext, *, empty: int) -> None:
        """`empty` is a sequence that never holds anything."""
        self._context = context
        self._empty = empty
        self._aside: dict[int, bytes] = {}
        self._snapshots: dict[int, bytes] = {}

    def share(self, source: int, target: int, start: int, stop: int) -> None:
        """See `Cells.share`; the target has no state after it."""
        self._context.share(source, target, start, stop)
        self._strip(target)

    def drop(self, sequence: int, start: int = -1, stop: int = -1) -> None:
        """See `Cells.drop`; a state that stands in the way is set aside, or dropped with all of its sequence."""
        if start < 0 and stop < 0:
            self._aside.pop(sequence, None)
            self._context.drop(sequence)
            return
        try:
            self._context.drop(sequence, start, stop)
        except EngineError:
            self._aside[sequence] = self.read(sequence)
            self._strip(sequence)
            self._context.drop(sequence, start, stop)

    def read(self, sequence: int) -> bytes:
        """The live state of a sequence."""
        return self._aside.get(sequence) or self._context.state_bytes(sequence, state_only=True)

    def resume(self, sequence: int) -> None:
        """Put back a state that was set aside."""
        if (state := self._aside.pop(sequence, None)) is not None:
            self._context.restore(sequence, state, state_only=True)

    def rebuild(self, sequence: int, change: Callable[[], None]) -> None:
        """Change a sequence's cells and keep its state."""
        state = self.read(sequence)
        change()
        self._aside.pop(sequence, None)
        self._context.restore(sequence, state, state_only=True)

    def save(self, sequence: int, snapshot: PositionRanges) -> None:
        """Keep a sequence's state under the positions of a snapshot."""
        self._snapshots[snapshot[0][0]] = self.read(sequence)

    def load(self, sequence: int, snapshot: PositionRanges) -> None:
        """Make a sequence's state that of a snapshot; its cells must be in place."""
        self._aside.pop(sequence, None)
        self._context.restore(sequence, self._snapshots[snapshot[0][0]], state_only=True)

    def snapshot(self, runs: PositionRanges) -> bytes:
        """A snapshot's bytes."""
        return self._snapshots[runs[0][0]]

    def adopt(self, runs: PositionRanges, state: bytes, scratch: int) -> None:
        """Keep what `snapshot` gave under other positions, once `scratch`, an empty sequence, has taken it.

        Raises:
            EngineError: it is not a state of this model.
        """
        try:
            self._context.restore(scratch, state, state_only=True)
        finally:
            self._context.drop(scratch)
        self._snapshots[runs[0][0]] = state

    def freed(self, runs: PositionRanges) -> None:
        """The cache has given these positions up."""
        for start, stop in runs:
            for position in [p for p in self._snapshots if start <= p < stop]:
                del self._snapshots[position]

    def _strip(self, sequence: int) -> None:
        """Take a sequence's state away: it becomes that of a sequence which has none."""
        self._context.share(self._empty, sequence, -1, -1)
