"""Rows of a recurrent state to 8 bits and back, each way in one pass over the state.

A *row* is one key channel of one head: `value_dim` numbers that share one scale. Row `head * key_dim + channel`.
"""

from __future__ import annotations

import torch
from torch import Tensor

from agentform.kernels.state_pack import reference

__all__ = ["pack", "unpack"]


def pack(state: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    """Quantise the rows that are kept: symmetric, one scale per row, so that its greatest value is exact.

    state `[heads, key_dim, value_dim]`, of any strides, rows int32 or int64 `[n]`; returns int8 `[n, value_dim]` and
    float32 `[n]`. A value is off by at most half a scale. Packing what `unpack` gave returns the same bytes.
    """
    _check(state.dim() == 3, f"state has shape {list(state.shape)}, not [heads, key_dim, value_dim]")
    _check(rows.dim() == 1 and rows.dtype in (torch.int32, torch.int64), "rows must be int32 or int64 [n]")
    if _on_gpu(state):
        from agentform.kernels.state_pack import triton

        return triton.pack(state, rows)
    return reference.pack(state, rows)


def unpack(values: Tensor, scales: Tensor, places: Tensor, state: Tensor) -> None:
    """Write every row of a state: those that were kept from int8, all others zero.

    values int8 `[n, value_dim]`, scales float32 `[n]`, places int32 `[heads * key_dim]` (which of the values belongs
    to each row, -1 for none), state `[heads, key_dim, value_dim]` of any strides, whatever it held.
    """
    _check(state.dim() == 3, f"state has shape {list(state.shape)}, not [heads, key_dim, value_dim]")
    heads, key_dim, value_dim = state.shape
    _check(values.shape == (len(scales), value_dim) and values.dtype == torch.int8, "values must be int8 [n, value]")
    _check(scales.dtype == torch.float32 and scales.dim() == 1, "scales must be float32 [n]")
    _check(places.shape == (heads * key_dim,) and places.dtype == torch.int32, "places must be int32 [heads * key]")
    if _on_gpu(state):
        from agentform.kernels.state_pack import triton

        triton.unpack(values, scales, places, state)
    else:
        reference.unpack(values, scales, places, state)


def _on_gpu(state: Tensor) -> bool:
    return state.device.type == "cuda"


def _check(holds: bool, message: str) -> None:
    if not holds:
        raise ValueError(message)
