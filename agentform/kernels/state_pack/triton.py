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


def pack_int4(state: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    """See `agentform.kernels.state_pack.pack_int4`."""
    _, key_dim, value_dim = state.shape
    half = (value_dim + 1) // 2
    nibbles = torch.empty(len(rows), half, dtype=torch.uint8, device=state.device)
    ranges = torch.empty(len(rows), 2, dtype=torch.bfloat16, device=state.device)
    block_half = triton.next_power_of_2(half)
    block_rows = _block_rows(2 * block_half)
    kernel: Any = _pack_int4
    if len(rows):
        kernel[(triton.cdiv(len(rows), block_rows),)](
            state,
            rows,
            nibbles,
            ranges,
            len(rows),
            key_dim,
            value_dim,
            half,
            *state.stride(),
            block_rows,
            block_half,
            enable_fp_fusion=True,
        )
    return nibbles, ranges


def unpack(values: Tensor, scales: Tensor, nibbles: Tensor, ranges: Tensor, places: Tensor, state: Tensor) -> None:
    """See `agentform.kernels.state_pack.unpack`."""
    _, key_dim, value_dim = state.shape
    block_value = triton.next_power_of_2(value_dim)
    block_rows = _block_rows(block_value)
    kernel: Any = _unpack
    kernel[(triton.cdiv(len(places), block_rows),)](
        values,
        scales,
        nibbles,
        ranges,
        places,
        state,
        len(scales),
        len(places),
        key_dim,
        value_dim,
        nibbles.shape[1],
        *state.stride(),
        bool(len(ranges)),
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
def _pack_int4(
    state,
    rows,
    nibbles,
    ranges,
    num_rows,
    key_dim,
    value_dim,
    half,
    head_stride,
    key_stride,
    value_stride,
    block_rows: tl.constexpr,
    block_half: tl.constexpr,
):
    at = tl.program_id(0) * block_rows + tl.arange(0, block_rows)
    column = tl.arange(0, block_half)
    is_row = (at < num_rows)[:, None]
    in_first = is_row & (column < half)[None, :]
    in_second = is_row & (column + half < value_dim)[None, :]
    row = tl.load(rows + at, mask=at < num_rows, other=0).to(tl.int64)
    start = state + ((row // key_dim) * head_stride + (row % key_dim) * key_stride)[:, None]
    first = tl.load(start + column[None, :] * value_stride, mask=in_first, other=0.0).to(tl.float32)
    second = tl.load(start + (column + half)[None, :] * value_stride, mask=in_second, other=0.0).to(tl.float32)
    least = tl.minimum(
        tl.min(tl.where(in_first, first, float("inf")), axis=1),
        tl.min(tl.where(in_second, second, float("inf")), axis=1),
    )
    greatest = tl.maximum(
        tl.max(tl.where(in_first, first, float("-inf")), axis=1),
        tl.max(tl.where(in_second, second, float("-inf")), axis=1),
    )
    least, greatest = tl.where(at < num_rows, least, 0.0), tl.where(at < num_rows, greatest, 0.0)
    low = _to_bfloat16(least)
    size = _to_bfloat16(tl.maximum(tl.div_rn(greatest - low, tl.full([block_rows], 15.0, tl.float32)), 0.0))
    divisor = tl.broadcast_to(tl.maximum(size, 1.1754943508222875e-38)[:, None], [block_rows, block_half])
    ones = tl.floor(tl.div_rn(first - low[:, None], divisor) + 0.5)
    tens = tl.floor(tl.div_rn(second - low[:, None], divisor) + 0.5)
    ones = tl.minimum(tl.maximum(ones, 0.0), 15.0).to(tl.int32)
    tens = tl.where(in_second, tl.minimum(tl.maximum(tens, 0.0), 15.0).to(tl.int32), 0)
    tl.store(nibbles + at.to(tl.int64)[:, None] * half + column[None, :], (ones | (tens << 4)).to(tl.uint8), in_first)
    tl.store(ranges + 2 * at, low.to(tl.bfloat16), mask=at < num_rows)
    tl.store(ranges + 2 * at + 1, size.to(tl.bfloat16), mask=at < num_rows)


@triton.jit
def _to_bfloat16(x):
    """Rounded to the nearest bfloat16, in float32; written out since the interpreter's own cast cuts off."""
    bits = x.to(tl.int32, bitcast=True)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) & -0x10000).to(tl.float32, bitcast=True)


@triton.jit
def _unpack(
    values,
    scales,
    nibbles,
    ranges,
    places,
    state,
    num_int8,
    num_rows,
    key_dim,
    value_dim,
    half,
    head_stride,
    key_stride,
    value_stride,
    has_int4: tl.constexpr,
    block_rows: tl.constexpr,
    block_value: tl.constexpr,
):
    row = tl.program_id(0) * block_rows + tl.arange(0, block_rows)
    column = tl.arange(0, block_value)
    inside = (row < num_rows)[:, None] & (column < value_dim)[None, :]
    place = tl.load(places + row, mask=row < num_rows, other=-1).to(tl.int64)
    kept = (place >= 0) & (place < num_int8)
    scale = tl.load(scales + place, mask=kept, other=0.0)
    steps = tl.load(values + place[:, None] * value_dim + column[None, :], mask=inside & kept[:, None], other=0)
    found = steps.to(tl.float32) * scale[:, None]
    if has_int4:
        four = place - num_int8
        kept = four >= 0
        low = tl.load(ranges + 2 * four, mask=kept, other=0.0).to(tl.float32)
        size = tl.load(ranges + 2 * four + 1, mask=kept, other=0.0).to(tl.float32)
        is_high = (column >= half).to(tl.int32)
        place = four[:, None] * half + (column - is_high * half)[None, :]
        both = tl.load(nibbles + place, mask=inside & kept[:, None], other=0).to(tl.int32)
        # A step times its size is exact in float32, so fusing the two operations changes no bit.
        found += low[:, None] + ((both >> (4 * is_high)[None, :]) & 15).to(tl.float32) * size[:, None]
    start = (row // key_dim).to(tl.int64) * head_stride + (row % key_dim).to(tl.int64) * key_stride
    target = state + start[:, None] + column[None, :] * value_stride
    tl.store(target, found.to(state.dtype.element_ty), mask=inside)
