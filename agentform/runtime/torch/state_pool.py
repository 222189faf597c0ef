"""The live recurrent states: one slot per running sequence, one row per slot and layer."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import torch
from torch import Tensor

from agentform.runtime.cache.runs import Runs
from agentform.runtime.torch.kv_pool import KVPool
from agentform.runtime.torch.snapshot_codec import LayerState, SnapshotCodec, StateShape

__all__ = ["StatePool"]


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
        kv: KVPool,
        device: torch.device,
    ) -> None:
        def rows(shape: tuple[int, ...] | None, dtype: torch.dtype) -> Tensor | None:
            return None if shape is None else torch.zeros(num_slots, *shape, dtype=dtype, device=device)

        self._conv = {layer: rows(s.conv, s.conv_dtype) for layer, s in shapes.items()}
        self._recurrent = {layer: rows(s.recurrent, s.recurrent_dtype) for layer, s in shapes.items()}
        self._sizes = {layer: codec.num_bytes(layer, shape) for layer, shape in shapes.items()}
        self._offsets = dict(zip(self._sizes, itertools.accumulate(self._sizes.values(), initial=0), strict=False))
        self._in_place = {layer for layer, shape in shapes.items() if shape.is_written_in_place}
        self._codec = codec
        self._kv = kv

    def rows(self, layer: int) -> tuple[Tensor | None, Tensor | None]:
        """A layer's conv and recurrent states of all slots, `[slots, ...]` each."""
        return self._conv[layer], self._recurrent[layer]

    @property
    def snapshot_bytes(self) -> int:
        """Bytes of one snapshot."""
        return sum(self._sizes.values())

    def is_written_in_place(self, layer: int) -> bool:
        """See `StateShape.is_written_in_place`."""
        return layer in self._in_place

    def clear(self, slot: int) -> None:
        """The state before the first token."""
        for each in (*self._conv.values(), *self._recurrent.values()):
            if each is not None:
                each[slot].zero_()

    def load(self, slot: int, runs: Runs) -> None:
        """Copy a snapshot into a slot."""
        for layer, offset in self._offsets.items():
            data = self._kv.read_bytes(runs, offset, self._sizes[layer])
            self._codec.decode(layer, data, self._state(layer, slot))

    def save(self, slot: int, runs: Runs) -> None:
        """Copy a slot into a snapshot."""
        for layer in self._offsets:
            self.save_layer(layer, slot, runs)

    def save_layer(self, layer: int, slot: int, runs: Runs) -> None:
        """The part of `save` that belongs to one layer."""
        offset = self._offsets[layer]
        for part in self._codec.encode(layer, self._state(layer, slot)):
            self._kv.write_bytes(runs, offset, part)
            offset += len(part)

    def _state(self, layer: int, slot: int) -> LayerState:
        conv, recurrent = self.rows(layer)
        return LayerState(
            conv=None if conv is None else conv[slot], recurrent=None if recurrent is None else recurrent[slot]
        )
