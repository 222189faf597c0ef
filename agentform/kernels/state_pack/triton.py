"""`state_pack` in Triton: one pass over the state each way, a tile of rows per program."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

__all__ = ["pack", "unpack"]

_TILE_VALUES = 4096


def pack(state: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    """See `agentform.kernels.state_pack.pack`."""
    _, key_dim, value_dim = state.shape
    values = torch.empty(len(rows), value_dim, dtype=torch.int8, device=state.device)
    scales = torch.empty(len(rows), dtype=torch.float32, device=state.device)
    block_value = triton.next_power_of_2(value_dim)
    block_rows = _block_rows(block_value)
    kernel: Any = _pack
    if len(rows):
        kernel[(triton.cdiv(len(rows), block_rows),)](
            state,
            rows,
            values,
            scales,
            len(rows),
            key_dim,
            value_dim,
            *state.stride(),
            block_rows,
            block_value,
            enable_fp_fusion=True,  # said outright, since Triton 3.9 warns where it is not
        )
    return values, scales


def unpack(values: Tensor, scales: Tensor, places: Tensor, state: Tensor) -> None:
    """See `agentform.kernels.state_pack.unpack`."""
    _, key_dim, value_dim = state.shape
    block_value = triton.next_power_of_2(value_dim)
    block_rows = _block_rows(block_value)
    kernel: Any = _unpack
    kernel[(triton.cdiv(len(places), block_rows),)](
        values,
        scales,
        places,
        state,
        len(places),
        key_dim,
        value_dim,
        *state.stride(),
        block_rows,
        block_value,
        enable_fp_fusion=True,
    )


def _block_rows(block_value: int) -> int:
    return max(1, _TILE_VALUES // block_value)


@triton.jit
def _pack(
    state,
    rows,
    values,
    scales,
    num_rows,
    key_dim,
    value_dim,
    head_stride,
    key_stride,
    value_stride,
    block_rows: tl.constexpr,
    block_value: tl.constexpr,
):
    at = tl.program_id(0) * block_rows + tl.arange(0, block_rows)
    column = tl.arange(0, block_value)
    inside = (at < num_rows)[:, None] & (column < value_dim)[None, :]
    row = tl.load(rows + at, mask=at < num_rows, other=0).to(tl.int64)
    start = (row // key_dim) * head_stride + (row % key_dim) * key_stride
    kept = tl.load(state + start[:, None] + column[None, :] * value_stride, mask=inside, other=0.0).to(tl.float32)
    scale = tl.div_rn(tl.max(tl.abs(kept), axis=1), tl.full([block_rows], 127.0, tl.float32))
    divisor = tl.maximum(scale, 1.1754943508222875e-38)  # the least normal float32
    steps = tl.floor(tl.div_rn(kept, tl.broadcast_to(divisor[:, None], [block_rows, block_value])) + 0.5)
    steps = tl.minimum(tl.maximum(steps, -127.0), 127.0)
    place = at.to(tl.int64)[:, None] * value_dim + column[None, :]
    tl.store(values + place, steps.to(tl.int8), mask=inside)
    tl.store(scales + at, scale, mask=at < num_rows)


@triton.jit
def _unpack(
    values,
    scales,
    places,
    state,
    num_rows,
    key_dim,
    value_dim,
    head_stride,
    key_stride,
    value_stride,
    block_rows: tl.constexpr,
    block_value: tl.constexpr,
):
    row = tl.program_id(0) * block_rows + tl.arange(0, block_rows)
    column = tl.arange(0, block_value)
    inside = (row < num_rows)[:, None] & (column < value_dim)[None, :]
    place = tl.load(places + row, mask=row < num_rows, other=-1).to(tl.int64)
    kept = place >= 0
    scale = tl.load(scales + place, mask=kept, other=0.0)
    steps = tl.load(values + place[:, None] * value_dim + column[None, :], mask=inside & kept[:, None], other=0)
    found = steps.to(tl.float32) * scale[:, None]
    start = (row // key_dim).to(tl.int64) * head_stride + (row % key_dim).to(tl.int64) * key_stride
    target = state + start[:, None] + column[None, :] * value_stride
    tl.store(target, found.to(state.dtype.element_ty), mask=inside)
