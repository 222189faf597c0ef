"""Where the parts of a snapshot lie in its slot, from a model's horizons and the sizes of SGLang's state pool.

SGLang holds the states of a request in all layers under one slot number, the recurrent one value first::

    temporal  [layers, slots, heads, value_dim, key_dim]      conv  [layers, slots, channels, width - 1]

A snapshot is a row of bytes, layer after layer, each as `DecayCodec` writes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from agentform.errors import HorizonsUnknown, InvalidRequest
from agentform.runtime.snapshots.horizons import Horizons
from agentform.runtime.snapshots.policy import SnapshotPolicy
from agentform.runtime.torch.snapshots.codec import LayerState, StateShape
from agentform.runtime.torch.snapshots.decay_codec import DecayCodec, geometry_of

__all__ = ["LiveStates", "SlotLayout", "StateSizes"]

_NO_INPUTS = 1 << 40
"""Stated width of a layer's input. The pool never sees inputs, so a window of them must never pay."""


class StateSizes(Protocol):
    """What is read of SGLang's `cache_params`: sizes and dtypes of one slot of one layer."""

    @property
    def shape(self) -> _Shapes: ...
    @property
    def dtype(self) -> _Dtypes: ...


class _Shapes(Protocol):
    @property
    def temporal(self) -> Sequence[int]: ...
    @property
    def conv(self) -> Sequence[Sequence[int]]: ...


class _Dtypes(Protocol):
    @property
    def temporal(self) -> torch.dtype: ...
    @property
    def conv(self) -> torch.dtype: ...


class LiveStates(Protocol):
    """What is used of SGLang's `mamba_cache`, see the module."""

    @property
    def temporal(self) -> Tensor: ...
    @property
    def conv(self) -> Sequence[Tensor]: ...


class SlotLayout:
    """The codec of a model and where each layer lies in a slot; every slot has the same bytes."""

    def __init__(self, policy: SnapshotPolicy, horizons: Horizons, sizes: StateSizes, layers: Sequence[int]) -> None:
        """`layers` are the model's recurrent layers in the pool's order.

        Raises:
            HorizonsUnknown: the horizons are of other layers or of a kind that was not tried.
            InvalidRequest: for a policy that needs what is not there.
        """
        if set(horizons.layers) != set(layers):
            raise HorizonsUnknown(f"horizons are known of layers {sorted(horizons.layers)}, states of {sorted(layers)}")
        kinds = {each.kind for each in horizons.layers.values()}
        if kinds != {"gated delta"} or len(sizes.shape.conv) != 1:
            raise HorizonsUnknown(
                f"snapshots in SGLang are for gated delta layers with one convolution (Qwen3-Next, Qwen3.5); these are "
                f"{', '.join(sorted(kinds))} with {len(sizes.shape.conv)}"
            )
        heads, value, key = sizes.shape.temporal
        self._shape = StateShape(
            conv=tuple(sizes.shape.conv[0]),
            recurrent=(heads, key, value),
            conv_dtype=sizes.dtype.conv,
            recurrent_dtype=sizes.dtype.temporal,
            input_dim=_NO_INPUTS,
        )
        self.layers = tuple(layers)
        plan = policy.plan(horizons, geometry_of(horizons, dict.fromkeys(layers, self._shape)))
        if any(plan.replays(layer) for layer in layers):
            raise InvalidRequest("this policy rebuilds heads from a layer's inputs, which SGLang's pool does not see")
        self.codec = DecayCodec(plan, horizons)
        self._bytes = [self.codec.num_bytes(layer, self._shape) for layer in layers]
        self._offsets = [sum(self._bytes[:index]) for index in range(len(layers))]
        self.slot_bytes = sum(self._bytes)

    @property
    def live_slot_bytes(self) -> int:
        """Bytes of one slot of SGLang's own state pool."""
        return len(self.layers) * self._shape.num_bytes

    @property
    def int8_slot_bytes(self) -> int:
        """Bytes of one slot of SGLang's int8 pool: values, a scale per head and key channel, and the convolution."""
        assert self._shape.recurrent is not None
        heads, key, value = self._shape.recurrent
        scales = heads * key * self._shape.recurrent_dtype.itemsize
        return len(self.layers) * (heads * key * value + scales + self._shape.conv_bytes)

    def check(self, live: LiveStates) -> None:
        """Compare with the live states.

        Raises:
            InvalidRequest: the live states have other sizes than the layout was made for.
        """
        assert self._shape.recurrent is not None
        heads, key, value = self._shape.recurrent
        found = [len(live.temporal), *live.temporal.shape[2:], *live.conv[0].shape[2:]]
        wanted = [len(self.layers), heads, value, key, *(self._shape.conv or ())]
        if found != wanted:
            raise InvalidRequest(f"SGLang's state pool has sizes {found}; snapshots were laid out for {wanted}")

    def pack(self, live: LiveStates, slot: int, row: Tensor) -> None:
        """Write a live state into a snapshot, uint8 `[slot_bytes]`."""
        for index, layer in enumerate(self.layers):
            at = self._offsets[index]
            for part in self.codec.encode(layer, _state(live, index, slot)):
                row[at : at + len(part)] = part
                at += len(part)
            assert at == self._offsets[index] + self._bytes[index], "a snapshot has a fixed number of bytes"

    def unpack(self, row: Tensor, live: LiveStates, slot: int) -> None:
        """Write a snapshot into a live state, whatever that held."""
        for index, layer in enumerate(self.layers):
            at = self._offsets[index]
            self.codec.decode(layer, row[at : at + self._bytes[index]], _state(live, index, slot), _no_rebuild)


def _state(live: LiveStates, index: int, slot: int) -> LayerState:
    return LayerState(conv=live.conv[0][index, slot], recurrent=live.temporal[index, slot].mT)


def _no_rebuild(inputs: Tensor) -> Tensor:
    raise AssertionError("nothing is rebuilt from a layer's inputs here")
