"""From a layer's recurrent state to bytes and back; the exact codec keeps what the model computed."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import torch
from torch import Tensor

__all__ = ["ExactCodec", "LayerState", "Rebuild", "SnapshotCodec", "StateShape", "as_bytes", "read_bytes_into"]

Rebuild: TypeAlias = Callable[[Tensor], Tensor]
"""From a layer's last inputs `[tokens, dim]` to its recurrent state, started from zero."""


@dataclass(frozen=True, kw_only=True)
class StateShape:
    """What one recurrent layer keeps per sequence."""

    conv: tuple[int, ...] | None
    """Last inputs of the layer's convolution, `[channels, kernel]`; `None` for a layer without one."""
    recurrent: tuple[int, ...] | None
    """Recurrent state, such as `[heads, d_k, d_v]`; `None` for a layer that is a convolution only."""
    conv_dtype: torch.dtype = torch.float32
    recurrent_dtype: torch.dtype = torch.float32
    is_written_in_place: bool = False
    """Whether the layer overwrites the recurrent state that it was given when it runs a single token."""
    input_dim: int = 0
    """Length of one token's input to the layer."""
    input_dtype: torch.dtype = torch.float32

    @property
    def conv_bytes(self) -> int:
        """Bytes of the convolution's last inputs."""
        return math.prod(self.conv) * self.conv_dtype.itemsize if self.conv is not None else 0

    @property
    def input_bytes(self) -> int:
        """Bytes of one token's input."""
        return self.input_dim * self.input_dtype.itemsize

    @property
    def num_bytes(self) -> int:
        """Bytes of one sequence's state of this layer."""
        recurrent = math.prod(self.recurrent) * self.recurrent_dtype.itemsize if self.recurrent is not None else 0
        return self.conv_bytes + recurrent


@dataclass(frozen=True, kw_only=True)
class LayerState:
    """One sequence's state of one layer, shapes as in `StateShape`."""

    conv: Tensor | None
    recurrent: Tensor | None
    inputs: Tensor | None = None
    """The layer's inputs at the last tokens, `[tokens, dim]`, for a codec that asks for them; zero before the first."""

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """Those that there are."""
        return tuple(each for each in (self.conv, self.recurrent) if each is not None)


class SnapshotCodec(Protocol):
    """Turns states into bytes of a fixed number per layer; a layer is named by its index in the model."""

    @property
    def name(self) -> str:
        """Identifies what the bytes mean, parameters included; part of what guards persisted snapshots."""
        ...

    @property
    def is_exact(self) -> bool:
        """Whether `decode` gives back every bit."""
        ...

    def num_bytes(self, layer: int, shape: StateShape) -> int:
        """Bytes of one layer of one snapshot."""
        ...

    def num_inputs(self, layer: int, shape: StateShape) -> int:
        """How many of the layer's last inputs `encode` needs, see `LayerState.inputs`; 0 for none."""
        ...

    def dropped(self, layer: int, state: LayerState, *, within_tokens: float = math.inf) -> Tensor | None:
        """Where `decode` leaves nothing of what is forgotten within so many tokens: bool, broadcastable to the

        recurrent state; `None` for nowhere.
        """
        ...

    def encode(self, layer: int, state: LayerState) -> Sequence[Tensor]:
        """Parts, uint8 `[n]` each and `num_bytes` together; they are copied before the state changes."""
        ...

    def decode(self, layer: int, data: Tensor, state: LayerState, rebuild: Rebuild) -> None:
        """Write what `encode` made, uint8 `[num_bytes]`, into a live state and its last inputs."""
        ...


class ExactCodec:
    """Every byte as the model holds it."""

    @property
    def name(self) -> str:
        """See `SnapshotCodec`."""
        return "exact-1"

    @property
    def is_exact(self) -> bool:
        """See `SnapshotCodec`."""
        return True

    def num_bytes(self, layer: int, shape: StateShape) -> int:
        """See `SnapshotCodec`."""
        return shape.num_bytes

    def num_inputs(self, layer: int, shape: StateShape) -> int:
        """See `SnapshotCodec`."""
        return 0

    def dropped(self, layer: int, state: LayerState, *, within_tokens: float = math.inf) -> Tensor | None:
        """See `SnapshotCodec`."""
        return None

    def encode(self, layer: int, state: LayerState) -> Sequence[Tensor]:
        """See `SnapshotCodec`; the parts are views of the state."""
        return [as_bytes(each) for each in state.tensors]

    def decode(self, layer: int, data: Tensor, state: LayerState, rebuild: Rebuild) -> None:
        """See `SnapshotCodec`."""
        read_bytes_into(data, state.tensors)


def as_bytes(tensor: Tensor) -> Tensor:
    """The values, uint8 `[n]`: a view where they lie one after the other."""
    return tensor.contiguous().view(-1).view(torch.uint8)


def read_bytes_into(data: Tensor, targets: Sequence[Tensor]) -> None:
    """Fill tensors one after the other from `data`, uint8 `[n]`."""
    done = 0
    for each in targets:
        size = each.numel() * each.itemsize
        each.copy_(_typed(data[done : done + size], each))
        done += size


def _typed(data: Tensor, like: Tensor) -> Tensor:
    """Bytes as the dtype and shape of `like`; copied where they do not lie on a multiple of its item size."""
    aligned = data.storage_offset() % like.itemsize == 0
    return (data if aligned else data.clone()).view(like.dtype).view(like.shape)
