"""Runs the scheduler's steps on llama.cpp: segments to batches, positions to sequences, snapshots to states."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from agentform.errors import EngineError
from agentform.runtime.cache.ranges import PositionRanges, count, cut
from agentform.runtime.llama_cpp.batches import Unit, units_of
from agentform.runtime.llama_cpp.context import BatchToken, LlamaContext
from agentform.runtime.llama_cpp.kv_blocks import export_blocks, restore_blocks
from agentform.runtime.llama_cpp.memory_plan import LlamaMemoryPlan
from agentform.runtime.llama_cpp.sequences import Cells, SequenceTable
from agentform.runtime.llama_cpp.states import StatefulCells
from agentform.runtime.scheduling.segment import Segment

__all__ = ["LlamaRunner"]

FloatRow = npt.NDArray[np.float32]


@dataclass(kw_only=True, eq=False)
class _BegunSegment:
    """A segment under way."""

    segment: Segment
    sequence: int
    units: deque[Unit]
    done: int = 0
    """Tokens of its chain that were computed."""
    rows: dict[int, FloatRow] = field(default_factory=dict[int, FloatRow])


class LlamaRunner:
    """Owned by the worker thread; the cache tells it by `freed` which positions it gives up."""

    def __init__(
        self, context: LlamaContext, plan: LlamaMemoryPlan, *, window: int, before_step: Callable[[], None]
    ) -> None:
        """`window`: tokens that any layer attends to at least; 0 where all layers attend to all."""
        self.plan = plan
        self._context = context
        self._window = window
        self._before_step = before_step
        self._states = StatefulCells(context, empty=plan.empty_sequence) if plan.is_stateful else None
        self._make_room: Callable[[], bool] = bool
        self._cells: Cells = self._states or context
        self._table = SequenceTable(self._cells, plan.active, plan.kept, make_room=lambda: self._make_room())

    def room_by(self, make_room: Callable[[], bool]) -> None:
        """`make_room` makes the cache give something up, for want of sequences; false if it has nothing."""
        self._make_room = make_room

    def freed(self, runs: PositionRanges) -> None:
        """The cache has given these positions up."""
        self._table.freed(runs)
        if self._states is not None:
            self._states.freed(runs)

    def compute(self, segments: Sequence[Segment]) -> list[list[FloatRow]]:
        """One step; per segment the logits of its rows, `[vocabulary]` each."""
        self._before_step()
        at_once = len(self.plan.active)
        groups = (segments[first : first + at_once] for first in range(0, len(segments), at_once))
        return [rows for group in groups for rows in self._together(group)]

    def save_state(self, slot: int, runs: PositionRanges) -> None:
        """Copy a slot's live state to a snapshot."""
        assert self._states is not None, "a model without recurrent layers"
        self._states.save(slot, runs)

    def export(self, runs: PositionRanges, snapshot: PositionRanges) -> tuple[bytes, bytes]:
        """See `StateMover.export`."""
        state = self._states.snapshot(snapshot) if snapshot and self._states is not None else b""
        scratch = self.plan.scratch_sequence

        def copy_to(start: int, stop: int) -> None:
            self._table.copy_to(scratch, runs, start, stop)

        return export_blocks(self._context, copy_to, scratch, count(runs), window=self._window), state

    def adopt(
        self, runs: PositionRanges, kv: bytes, num: int, *, skip: int, snapshot: PositionRanges, state: bytes
    ) -> None:
        """See `StateMover.adopt`."""
        scratch = self.plan.scratch_sequence
        if runs:
            target = self._table.reserve(runs, place=skip)

            def copy_from(start: int, stop: int) -> None:
                self._cells.share(scratch, target, start, stop)

            restore_blocks(self._context, kv, copy_from, scratch, skip, skip + count(runs))
        if snapshot and self._states is not None:
            self._states.adopt(snapshot, state, scratch)

    def integrity(self, owned: set[int]) -> None:
        """Assert that sequences hold the tokens at `owned`, and no others."""
        self._table.integrity(owned)

    def _together(self, segments: Sequence[Segment]) -> list[list[FloatRow]]:
        self._table.begin()
        parts = [self._placed(segment) for segment in segments]
        while any(part.units for part in parts):
            self._one_batch([part for part in parts if part.units])
        for part in parts:
            self._keep_one_copy(part)
        return [[part.rows[row] for row in part.segment.rows] for part in parts]

    def _placed(self, segment: Segment) -> _BegunSegment:
        """Find or make a sequence that holds what comes before the segment, and no more."""
        before = cut(segment.runs, segment.num_before)[0]
        stateful = self._states is not None
        if self._states is None:
            sequence = self._table.occupy(before)
        else:
            assert segment.slot is not None, "a model with recurrent layers runs in slots"
            sequence = segment.slot
            self._place_in_slot(self._states, segment, sequence, before)
        most = len(self.plan.branches)
        units = units_of(segment, sequence, stateful=stateful, most_branches=most)
        return _BegunSegment(segment=segment, sequence=sequence, units=deque(units))

    def _place_in_slot(self, states: StatefulCells, segment: Segment, slot: int, before: PositionRanges) -> None:
        if segment.load is not None:
            self._table.put(slot, before)
            if segment.load:
                states.load(slot, segment.load)
        elif self._table.content(slot) != before:
            states.rebuild(slot, lambda: self._table.put(slot, before))
        states.resume(slot)

    def _keep_one_copy(self, part: _BegunSegment) -> None:
        """Tokens that ran again only for their state have their cells twice: let the new ones go."""
        segment = part.segment
        if self._states is None or not segment.num_stored:
            return
        runs = self._table.content(part.sequence)
        self._states.rebuild(part.sequence, lambda: self._table.put(part.sequence, runs))

    def _one_batch(self, parts: Sequence[_BegunSegment]) -> None:
        """The next unit of as many parts as one batch takes."""
        tokens: list[BatchToken] = []
        taken: list[tuple[_BegunSegment, Unit]] = []
        branches = deque(self.plan.branches)
        try:
            for part in parts:
                if self._fits(tokens, part.units[0], len(branches)):
                    unit = part.units.popleft()
                    its = [branches.popleft() for _ in range(unit.num_branches)]
                    for branch in its:
                        self._context.share(part.sequence, branch, -1, -1)
                    tokens += unit.build(its)
                    taken.append((part, unit))
            self._decode(tokens, taken, parts[0].units)
        finally:
            for branch in set(self.plan.branches) - set(branches):
                self._context.drop(branch)
        for part, unit in taken:
            self._advance(part, unit)

    def _fits(self, tokens: Sequence[BatchToken], unit: Unit, num_branches: int) -> bool:
        rows = sum(token.wants_logits for token in tokens) + len(unit.rows)
        fits_tokens = len(tokens) + unit.num_tokens <= self._context.max_batch
        return fits_tokens and rows <= self._context.max_rows and unit.num_branches <= num_branches

    def _decode(self, tokens: list[BatchToken], taken: Sequence[tuple[_BegunSegment, Unit]], left: deque[Unit]) -> None:
        if not taken:
            raise EngineError(
                f"{left[0].num_tokens} tokens with {len(left[0].rows)} rows of logits do not fit one batch of "
                f"{self._context.max_batch} tokens and {self._context.max_rows} rows"
            )
        try:
            rows = iter(self._context.decode(tokens))
        except EngineError:  # a part of the batch may have been computed
            for part, unit in taken:
                self._table.undo(part.sequence, unit.num_tokens)
            raise
        for part, unit in taken:
            part.rows.update((row, np.array(next(rows))) for row in unit.rows)

    def _advance(self, part: _BegunSegment, unit: Unit) -> None:
        """The unit was computed: its chain's tokens are the sequence's, and snapshots that stand there are taken."""
        segment = part.segment
        if unit.chain_stop > part.done:
            start = segment.num_before
            self._table.extend(part.sequence, _between(segment.runs, start + part.done, start + unit.chain_stop))
            part.done = unit.chain_stop
        for at, runs in segment.saves:
            if at == part.done and self._states is not None:
                self._states.save(part.sequence, runs)


def _between(runs: PositionRanges, start: int, stop: int) -> PositionRanges:
    return cut(cut(runs, stop)[0], start)[1]
