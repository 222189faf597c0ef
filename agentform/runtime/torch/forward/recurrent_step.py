"""Recurrent layers in a step: every sequence's state is carried along its own tokens, branches start from it.

::

    segment      chain [0, c)             | branches [c, n)
    state        slot ──▶ slot (in place) | slot ──▶ dropped after the layer

Chains of one token (decodes) run as one batch; longer ones run one by one, cut where a snapshot is taken. Branches
run level by level, each level a batch: a token starts from the state after its parent. Those states live for one
layer of one step; nothing is kept per branch, and nothing at all per candidate.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from agentform.runtime.cache.ranges import PositionRanges
from agentform.runtime.scheduling.segment import Segment
from agentform.runtime.torch.forward.recurrent_cache import Layer, LinearState
from agentform.runtime.torch.forward.state_pool import StatePool

__all__ = ["LinearStep"]


@dataclass(frozen=True, kw_only=True)
class _Chain:
    """Packed tokens `[start, stop)` continue the sequence in `slot`; then the state settles and is saved."""

    start: int
    stop: int
    slot: int
    save: PositionRanges | None
    settle: PositionRanges | None
    num_tokens: int
    """Tokens of the sequence after the chain."""


@dataclass(frozen=True, kw_only=True)
class _TreeLevel:
    """Branch tokens of one depth of one segment."""

    rows: Tensor
    """Their places among the packed tokens, `[tokens]`."""
    parents: Tensor | None
    """Where each one's parent stands in the level above, `[tokens]`; `None`: all start from the sequence's state."""


class LinearStep:
    """The plan of one step, made once and followed by every recurrent layer."""

    def __init__(self, segments: Sequence[Segment], states: StatePool, *, device: torch.device) -> None:
        self._states = states
        self._chains: list[_Chain] = []
        self._trees: list[tuple[int, list[_TreeLevel]]] = []
        start = 0
        for segment in segments:
            assert segment.slot is not None, "a sequence without a slot"
            self._chains += _chains(segment, start, segment.slot)
            if segment.num_chain < len(segment.token_ids):
                self._trees.append((segment.slot, _levels(segment, start, device)))
            start += len(segment.token_ids)
        singles = _alone(self._chains)
        self._batch = singles if len(singles) > 1 else []
        self._batch_rows = _indices([chain.start for chain in self._batch], device)
        self._batch_slots = _indices([chain.slot for chain in self._batch], device)

    def run(self, layer: int, compute: Layer, hidden: Tensor) -> Tensor:
        """One layer over the packed tokens, `[1, tokens, dim]` to the same shape; moves the slots' states on."""
        out = torch.empty_like(hidden)
        if self._batch:
            self._run_batch(layer, compute, hidden, out)
        for chain in self._chains:
            if chain not in self._batch:
                state = self._state(layer, chain.slot)
                out[:, chain.start : chain.stop] = compute(hidden[:, chain.start : chain.stop], state)
                self._store(layer, chain.slot, state)
                self._states.note_inputs(layer, [chain.slot], hidden[:, chain.start : chain.stop])
            if chain.settle is not None:
                self._states.settle(layer, chain.slot, chain.settle, num_tokens=chain.num_tokens)
            if chain.save is not None:
                self._states.save_layer(layer, chain.slot, chain.save)
        for slot, levels in self._trees:
            self._run_tree(layer, compute, hidden, out, slot, levels)
        return out

    def _run_batch(self, layer: int, compute: Layer, hidden: Tensor, out: Tensor) -> None:
        rows = self._states.rows(layer)
        conv, recurrent = (None if each is None else each[self._batch_slots] for each in rows)
        state = LinearState(conv=conv, recurrent=recurrent)
        inputs = hidden[0, self._batch_rows].unsqueeze(1)
        out[0, self._batch_rows] = compute(inputs, state).squeeze(1)
        self._states.note_inputs(layer, [chain.slot for chain in self._batch], inputs)
        for pool, new in zip(rows, (state.conv, state.recurrent), strict=True):
            if pool is not None and new is not None:
                pool.index_copy_(0, self._batch_slots, new.to(pool.dtype))

    def _run_tree(
        self, layer: int, compute: Layer, hidden: Tensor, out: Tensor, slot: int, levels: list[_TreeLevel]
    ) -> None:
        state = self._state(layer, slot)
        copy = self._states.is_written_in_place(layer)
        for level in levels:
            branches = level.parents
            state = state.spread(len(level.rows), copy=copy) if branches is None else state.at(branches)
            out[0, level.rows] = compute(hidden[0, level.rows].unsqueeze(1), state).squeeze(1)

    def _state(self, layer: int, slot: int) -> LinearState:
        conv, recurrent = self._states.rows(layer)
        return LinearState(
            conv=None if conv is None else conv[slot : slot + 1].clone(),  # layers may write into it
            recurrent=None if recurrent is None else recurrent[slot : slot + 1],
        )

    def _store(self, layer: int, slot: int, state: LinearState) -> None:
        for pool, new in zip(self._states.rows(layer), (state.conv, state.recurrent), strict=True):
            if pool is not None and new is not None:
                pool[slot : slot + 1] = new


def _chains(segment: Segment, start: int, slot: int) -> list[_Chain]:
    """The chain of a segment whose first packed token is `start`, cut after each place of a snapshot."""
    cuts = dict(segment.saves)
    settles = dict((segment.settle,)) if segment.settle is not None else {}
    assert all(0 < at <= segment.num_chain for at in (*cuts, *settles)), "a snapshot outside the chain"
    stops = sorted({*cuts, *settles, segment.num_chain} - {0})
    return [
        _Chain(
            start=start + begin,
            stop=start + stop,
            slot=slot,
            save=cuts.get(stop),
            settle=settles.get(stop),
            num_tokens=segment.num_before + stop,
        )
        for begin, stop in itertools.pairwise([0, *stops])
    ]


def _alone(chains: Sequence[_Chain]) -> list[_Chain]:
    """Chains of one token that are all their sequence adds to the step."""
    parts = Counter(chain.slot for chain in chains)
    return [chain for chain in chains if chain.stop - chain.start == 1 and parts[chain.slot] == 1]


def _levels(segment: Segment, start: int, device: torch.device) -> list[_TreeLevel]:
    """The branches of a segment by depth."""
    assert segment.parents is not None
    chain = segment.num_chain
    levels: list[list[int]] = []
    place: dict[int, tuple[int, int]] = {}  # depth, and index in its level, of each branch token
    for index in range(chain, len(segment.token_ids)):
        parent = segment.parents[index]
        depth = place[parent][0] + 1 if parent >= chain else 0
        if depth == len(levels):
            levels.append([])
        place[index] = (depth, len(levels[depth]))
        levels[depth].append(index)
    return [
        _TreeLevel(
            rows=_indices([start + index for index in level], device),
            parents=_indices([place[segment.parents[index]][1] for index in level], device) if depth else None,
        )
        for depth, level in enumerate(levels)
    ]


def _indices(values: list[int], device: torch.device) -> Tensor:
    return torch.tensor(values, dtype=torch.long, device=device)
