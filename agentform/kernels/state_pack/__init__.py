"""Rows of a recurrent state to 8 or 4 bits and back, each way in one pass over the state.

A *row* is one key channel of one head: `value_dim` numbers that are quantised together. Row `head * key_dim + channel`.

::

    8 bits    value = step * scale            steps -127 ... 127    one float32 a row
    4 bits    value = low + step * size       steps 0 ... 15        two bfloat16 a row

With few steps it matters that a row need not lie evenly around zero; both ways take four bytes a row beside its steps.
"""

from __future__ import annotations

import torch
from torch import Tensor

from agentform.kernels.state_pack import reference

__all__ = ["pack", "pack_int4", "unpack"]


def pack(state: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    """Quantise the rows that are kept: symmetric, one scale per row, so that its greatest value is exact.

    state `[heads, key_dim, value_dim]`, of any strides, rows int32 or int64 `[n]`; returns int8 `[n, value_dim]` and
    float32 `[n]`. A value is off by at most half a scale. Packing what `unpack` gave returns the same bytes.
    """
    _check_packed(state, rows)
    if _on_gpu(state):
        from agentform.kernels.state_pack import triton

        with torch.cuda.device_of(state):
            return triton.pack(state, rows)
    return reference.pack(state, rows)


def pack_int4(state: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    """Quantise the rows that are kept to 16 steps between the least and the greatest value of each.

    Arguments as of `pack`; returns uint8 `[n, half]` with half = ceil(value_dim / 2), value `i` in the low bits of byte
    `i` and value `half + i` in its high bits, and bfloat16 `[n, 2]`: the least value and the size of a step. A value is
    off by at most half a step, and by what rounding these two to bfloat16 moves the ends of the range. Packing what
    `unpack` gave returns the same bytes, unless a row's values lie closer together than bfloat16 tells them apart.
    """
    _check_packed(state, rows)
    if _on_gpu(state):
        from agentform.kernels.state_pack import triton

        with torch.cuda.device_of(state):
            return triton.pack_int4(state, rows)
    return reference.pack_int4(state, rows)


def unpack(
    values: Tensor,
    scales: Tensor,
    places: Tensor,
    state: Tensor,
    *,
    nibbles: Tensor | None = None,
    ranges: Tensor | None = None,
) -> None:
    """Write every row of a state: those that were kept from their steps, all others zero.

    values int8 `[n, value_dim]` and scales float32 `[n]` as of `pack`, nibbles uint8 `[m, half]` and ranges bfloat16
    `[m, 2]` as of `pack_int4`, places int32 `[heads * key_dim]` (which of the n + m packed rows belongs to each row,
    those of 8 bits first, -1 for none), state `[heads, key_dim, value_dim]` of any strides, whatever it held.
    """
    _check(state.dim() == 3, f"state has shape {list(state.shape)}, not [heads, key_dim, value_dim]")
    heads, key_dim, value_dim = state.shape
    half = (value_dim + 1) // 2
    nibbles = torch.empty(0, half, dtype=torch.uint8, device=state.device) if nibbles is None else nibbles
    ranges = torch.empty(0, 2, dtype=torch.bfloat16, device=state.device) if ranges is None else ranges
    _check(values.shape == (len(scales), value_dim) and values.dtype == torch.int8, "values must be int8 [n, value]")
    _check(scales.dtype == torch.float32 and scales.dim() == 1, "scales must be float32 [n]")
    _check(nibbles.shape == (len(ranges), half) and nibbles.dtype == torch.uint8, "nibbles must be uint8 [m, half]")
    _check(ranges.shape == (len(ranges), 2) and ranges.dtype == torch.bfloat16, "ranges must be bfloat16 [m, 2]")
    _check(places.shape == (heads * key_dim,) and places.dtype == torch.int32, "places must be int32 [heads * key]")
    if _on_gpu(state):
        from agentform.kernels.state_pack import triton

        with torch.cuda.device_of(state):
            triton.unpack(values, scales, nibbles, ranges, places, state)
    else:
        reference.unpack(values, scales, nibbles, ranges, places, state)


def _check_packed(state: Tensor, rows: Tensor) -> None:
    _check(state.dim() == 3, f"state has shape {list(state.shape)}, not [heads, key_dim, value_dim]")
    _check(rows.dim() == 1 and rows.dtype in (torch.int32, torch.int64), "rows must be int32 or int64 [n]")


def _on_gpu(state: Tensor) -> bool:
    return state.device.type == "cuda"


def _check(holds: bool, message: str) -> None:
    if not holds:
        raise ValueError(message)
