"""The tensors that hold the KV of every cached and running token."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from agentform.runtime.cache.runs import Runs

__all__ = ["KVPool", "LayerShape", "bytes_per_position"]


@dataclass(frozen=True, kw_only=True)
class LayerShape:
    """What one attention layer stores per token."""

    num_kv_heads: int
    key_dim: int
    value_dim: int


def bytes_per_position(layers: tuple[LayerShape, ...], dtype: torch.dtype) -> int:
    """Bytes that one token's KV takes over all layers."""
    return sum(s.num_kv_heads * (s.key_dim + s.value_dim) for s in layers) * dtype.itemsize


class KVPool:
    """Per layer, keys `[kv_heads, positions, key_dim]` and values `[kv_heads, positions, value_dim]`.

    Who owns which position is the prefix cache's business; a position is written before it is first read.
    """

    def __init__(
        self, layers: tuple[LayerShape, ...], num_positions: int, *, dtype: torch.dtype, device: torch.device
    ) -> None:
        def rows(heads: int, dim: int) -> Tensor:
            return torch.empty(heads, num_positions, dim, dtype=dtype, device=device)

        self._keys = [rows(s.num_kv_heads, s.key_dim) for s in layers]
        self._values = [rows(s.num_kv_heads, s.value_dim) for s in layers]

    def write(self, layer: int, key: Tensor, value: Tensor, slots: slice | Tensor) -> None:
        """Store new tokens, `[kv_heads, tokens, dim]` each, at `slots` (one position per token)."""
        if isinstance(slots, slice):
            self._keys[layer][:, slots] = key
            self._values[layer][:, slots] = value
        else:
            self._keys[layer].index_copy_(1, slots, key)
            self._values[layer].index_copy_(1, slots, value)

    def read(self, layer: int, runs: Runs) -> tuple[Tensor, Tensor]:
        """Keys and values at `runs`, `[kv_heads, positions, dim]`: a view for one run, a copy for several."""
        keys, values = self._keys[layer], self._values[layer]
        if len(runs) == 1:
            start, stop = runs[0]
            return keys[:, start:stop], values[:, start:stop]
        return (
            torch.cat([keys[:, start:stop] for start, stop in runs], dim=1),
            torch.cat([values[:, start:stop] for start, stop in runs], dim=1),
        )
