"""The live recurrent states: one slot per running sequence, one row per slot and layer."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from agentform.runtime.cache.ranges import PositionRanges
from agentform.runtime.torch.forward.kv_pool import KVPool
from agentform.runtime.torch.forward.recurrent_cache import Layer, LinearState
from agentform.runtime.torch.snapshots.codec import LayerState, Rebuild, SnapshotCodec, StateShape

__all__ = ["REFRESH_REACH", "StatePool"]

REFRESH_REACH = 4.0
"""A warm-up of W tokens is for heads that forget within so many times W; see `StatePool.load_cold`."""


class StatePool:
    """Per recurrent layer `[slots, *shape]`; which sequence owns which slot is the prefix cache's business.

    Snapshots are written into positions of the KV pool and read from there::

        bytes of a snapshot    [ first layer | next layer | ... ]     the codec says how many each takes
    """

    def __init__(
        self,
        shapes: Mapping[int, StateShape],
        num_slots: int,
        *,
        codec: SnapshotCodec,
        compute: Mapping[int, Layer],
        kv: KVPool,
        device: torch.device,
        refresh_tokens: int = 0,
        refresh_reach: float = REFRESH_REACH,
    ) -> None:
        """`compute` holds the layers themselves, for codecs that rebuild states from a layer's last inputs; warm-ups
        are `refresh_tokens` long.
        """

        def rows(shape: tuple[int, ...] | None, dtype: torch.dtype) -> Tensor | None:
            return None if shape is None else torch.zeros(num_slots, *shape, dtype=dtype, device=device)

        self._conv = {layer: rows(s.conv, s.conv_dtype) for layer, s in shapes.items()}
        self._recurrent = {layer: rows(s.recurrent, s.recurrent_dtype) for layer, s in shapes.items()}
        windows = {layer: codec.num_inputs(layer, shape) for layer, shape in shapes.items()}
        self._inputs = {
            layer: rows((windows[layer], s.input_dim), s.input_dtype) for layer, s in shapes.items() if windows[layer]
        }
        self._compute = compute
        self._sizes = {layer: codec.num_bytes(layer, shape) for layer, shape in shapes.items()}
        self._offsets = dict(zip(self._sizes, itertools.accumulate(self._sizes.values(), initial=0), strict=False))
        self._in_place = {layer for layer, shape in shapes.items() if shape.is_written_in_place}
        self._codec = codec
        self._kv = kv
        self._reach_tokens = refresh_tokens * refresh_reach if refresh_tokens else 0.0

    def rows(self, layer: int) -> tuple[Tensor | None, Tensor | None]:
        """A layer's conv and recurrent states of all slots, `[slots, ...]` each."""
        return self._conv[layer], self._recurrent[layer]

    @property
    def snapshot_bytes(self) -> int:
        """Bytes of one snapshot."""
        return sum(self._sizes.values())

    @property
    def can_refresh(self) -> bool:
        """Whether snapshots leave something out that a warm-up brings back."""
        return any(self._warmed(layer, self._state(layer, 0)) is not None for layer in self._offsets)

    def is_written_in_place(self, layer: int) -> bool:
        """See `StateShape.is_written_in_place`."""
        return layer in self._in_place

    def clear(self, slot: int) -> None:
        """The state before the first token."""
        for each in (*self._conv.values(), *self._recurrent.values(), *self._inputs.values()):
            if each is not None:
                each[slot].zero_()

    def load(self, slot: int, runs: PositionRanges, *, num_tokens: int) -> None:
        """Copy a snapshot that was taken after `num_tokens` tokens into a slot."""
        for layer in self._offsets:
            self._load_layer(layer, slot, runs, num_tokens)

    def load_cold(self, slot: int, runs: PositionRanges, *, num_tokens: int) -> None:
        """`load` for a warm-up over the last tokens: what the snapshot does not hold starts from zero with them.

        Heads of which something was dropped are zero as a whole: in a delta rule key channels read one another, and a
        channel that already holds a token would keep the others from learning it. The convolution starts from zero;
        what it last read lies before the warm-up and is in no snapshot.

        Heads that forget much more slowly than the warm-up is long are not brought back: models normalise what a head
        says, so one that has read a few tokens of many speaks as loudly as one that has read all.
        """
        self.load(slot, runs, num_tokens=num_tokens)
        for layer in self._offsets:
            state = self._state(layer, slot)
            warmed = self._warmed(layer, state)
            if warmed is not None and state.recurrent is not None:
                state.recurrent[warmed.flatten(1).any(dim=1)] = 0
            if state.conv is not None:
                state.conv.zero_()

    def settle(self, layer: int, slot: int, runs: PositionRanges, *, num_tokens: int) -> None:
        """End a warm-up: only what was to be brought back keeps what it learned, the rest is loaded again."""
        state = self._state(layer, slot)
        warmed = self._warmed(layer, state)
        learned = state.recurrent.clone() if state.recurrent is not None else None
        self._load_layer(layer, slot, runs, num_tokens)
        if warmed is not None and learned is not None and state.recurrent is not None:
            state.recurrent.copy_(torch.where(warmed, learned, state.recurrent))

    def note_inputs(self, layer: int, slots: Sequence[int], hidden: Tensor) -> None:
        """Remember what a layer was just given, `[slots, tokens, dim]`, where the codec asks for it."""
        rows = self._inputs.get(layer)
        if rows is not None:
            rows[slots] = torch.cat([rows[slots], hidden], dim=1)[:, -rows.shape[1] :]

    def save(self, slot: int, runs: PositionRanges) -> None:
        """Copy a slot into a snapshot."""
        for layer in self._offsets:
            self.save_layer(layer, slot, runs)

    def save_layer(self, layer: int, slot: int, runs: PositionRanges) -> None:
        """The part of `save` that belongs to one layer."""
        offset = self._offsets[layer]
        for part in self._codec.encode(layer, self._state(layer, slot)):
            self._kv.write_bytes(runs, offset, part)
            offset += len(part)

    def _warmed(self, layer: int, state: LayerState) -> Tensor | None:
        """What a warm-up brings back, as `SnapshotCodec.dropped` says it."""
        return self._codec.dropped(layer, state, within_tokens=self._reach_tokens)

    def _state(self, layer: int, slot: int) -> LayerState:
        conv, recurrent = self.rows(layer)
        inputs = self._inputs.get(layer)
        return LayerState(
            conv=None if conv is None else conv[slot],
            recurrent=None if recurrent is None else recurrent[slot],
            inputs=None if inputs is None else inputs[slot],
        )

    def _load_layer(self, layer: int, slot: int, runs: PositionRanges, num_tokens: int) -> None:
        data = self._kv.read_bytes(runs, self._offsets[layer], self._sizes[layer])
        self._codec.decode(layer, data, self._state(layer, slot), self._rebuild(layer, num_tokens))

    def _rebuild(self, layer: int, num_tokens: int) -> Rebuild:
        """Runs the layer over the last inputs, as many as there are tokens."""

        def rebuild(inputs: Tensor) -> Tensor:
            conv, recurrent = (None if rows is None else torch.zeros_like(rows[:1]) for rows in self.rows(layer))
            state = LinearState(conv=conv, recurrent=recurrent)
            self._compute[layer](inputs[-num_tokens:].unsqueeze(0), state)
            assert state.recurrent is not None, "a layer without a recurrent state"
            return state.recurrent[0]

        return rebuild
