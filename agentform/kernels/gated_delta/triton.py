"""`gated_delta` in Triton: a program holds a head's state, or a strip of its value columns, in registers.

Columns of the state do not read one another, so strips of a head run apart. Both entry points use one kernel: a
replay is one branch without a state to start from and without outputs.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

__all__ = ["replay", "step_branches"]

_BLOCK_VALUE = 32


def step_branches(
    query: Tensor, key: Tensor, value: Tensor, decay: Tensor, beta: Tensor, lengths: Tensor, state: Tensor, scale: float
) -> tuple[Tensor, Tensor]:
    """See `agentform.kernels.gated_delta.step_branches`."""
    branches, _, heads, _ = value.shape
    out = torch.zeros_like(value, memory_format=torch.contiguous_format)
    states = torch.empty(branches, *state.shape, dtype=torch.float32, device=state.device)
    every = torch.arange(heads, dtype=torch.int32, device=state.device)
    _launch(query, key, value, decay, beta, lengths, every, state, states, out, scale, reads=True)
    return out, states


def replay(key: Tensor, value: Tensor, decay: Tensor, beta: Tensor, heads: Tensor, state: Tensor) -> None:
    """See `agentform.kernels.gated_delta.replay`."""
    lengths = torch.full((1,), len(value), dtype=torch.int32, device=state.device)
    key, value, decay, beta = (each.unsqueeze(0) for each in (key, value, decay, beta))
    _launch(key, key, value, decay, beta, lengths, heads, state, state.unsqueeze(0), value, 0.0, reads=False)


def _launch(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    decay: Tensor,
    beta: Tensor,
    lengths: Tensor,
    heads: Tensor,
    state: Tensor,
    states: Tensor,
    out: Tensor,
    scale: float,
    *,
    reads: bool,
) -> None:
    branches, tokens, all_heads, value_dim = value.shape
    key_heads, key_dim = key.shape[2:]
    query, key, value, decay, beta = (each.contiguous() for each in (query, key, value, decay, beta))
    block_value = min(_BLOCK_VALUE, triton.next_power_of_2(value_dim))
    if not len(heads) or not branches:
        return
    kernel: Any = _gated_delta_rule_kernel
    kernel[(branches * len(heads), triton.cdiv(value_dim, block_value))](
        query,
        key,
        value,
        decay,
        beta,
        lengths,
        heads,
        state,
        states,
        out,
        scale,
        tokens,
        len(heads),
        all_heads,
        key_heads,
        key_dim,
        value_dim,
        *state.stride(),
        *states.stride(),
        per_channel=decay.shape[3] > 1,
        reads=reads,
        block_key=triton.next_power_of_2(key_dim),
        block_value=block_value,
        enable_fp_fusion=True,  # said outright, since Triton 3.9 warns where it is not
    )


@triton.jit
def _gated_delta_rule_kernel(
    query,
    key,
    value,
    decay,
    beta,
    lengths,
    heads,
    state,
    states,
    out,
    scale,
    tokens,
    num_heads,
    all_heads,
    key_heads,
    key_dim,
    value_dim,
    head_stride,
    key_stride,
    value_stride,
    branch_stride_out,
    head_stride_out,
    key_stride_out,
    value_stride_out,
    per_channel: tl.constexpr,
    reads: tl.constexpr,
    block_key: tl.constexpr,
    block_value: tl.constexpr,
):
    branch = (tl.program_id(0) // num_heads).to(tl.int64)
    head = tl.load(heads + tl.program_id(0) % num_heads).to(tl.int64)
    key_head = head // (all_heads // key_heads)
    row = tl.arange(0, block_key)
    column = tl.program_id(1) * block_value + tl.arange(0, block_value)
    is_row, is_column = row < key_dim, column < value_dim
    inside = is_row[:, None] & is_column[None, :]
    now = tl.zeros([block_key, block_value], tl.float32)
    if reads:
        start = head * head_stride + row[:, None] * key_stride + column[None, :] * value_stride
        now = tl.load(state + start, mask=inside, other=0.0).to(tl.float32)
    for token in range(tl.load(lengths + branch)):
        at = branch * tokens + token
        of_key = (at * key_heads + key_head) * key_dim + row
        of_value = (at * all_heads + head) * value_dim + column
        k = tl.load(key + of_key, mask=is_row, other=0.0).to(tl.float32)
        v = tl.load(value + of_value, mask=is_column, other=0.0).to(tl.float32)
        b = tl.load(beta + at * all_heads + head).to(tl.float32)
        if per_channel:
            g = tl.load(decay + (at * all_heads + head) * key_dim + row, mask=is_row, other=0.0).to(tl.float32)
            now = now * tl.exp(g)[:, None]
        else:
            now = now * tl.exp(tl.load(decay + at * all_heads + head).to(tl.float32))
        known = tl.sum(now * k[:, None], axis=0)
        now = now + k[:, None] * ((v - known) * b)[None, :]
        if reads:
            q = tl.load(query + of_key, mask=is_row, other=0.0).to(tl.float32) * scale
            read = tl.sum(now * q[:, None], axis=0)
            tl.store(out + of_value, read.to(out.dtype.element_ty), mask=is_column)
    end = branch * branch_stride_out + head * head_stride_out
    place = end + row[:, None] * key_stride_out + column[None, :] * value_stride_out
    tl.store(states + place, now.to(states.dtype.element_ty), mask=inside)
