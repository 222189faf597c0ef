"""Attention of one segment's queries over its keys and values.

Grouped-query attention never repeats keys or values: the queries that share a key head become its rows.
Which kernel does which shape was measured (bfloat16, CPU, 9 heads on 3 key heads, 64 wide): for one query products
in float32 take 0.8 of the time of torch's fused kernel over 64 positions and 0.65 over 2,000, and bfloat16 ones
more than either; for many queries bfloat16 products in blocks take 0.35 to 0.45 of the fused kernel's.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from agentform.runtime.cache.ranges import PositionRanges

__all__ = ["Span", "attend", "kv_dtype"]

_BLOCK = 128
"""Queries per block: its weights stay in the CPU's cache, and keys after its last query are skipped."""


@dataclass(frozen=True, kw_only=True)
class Span:
    """Packed tokens `[start, stop)` of a step and what they attend to."""

    start: int
    stop: int
    runs: PositionRanges
    """KV positions, those of the tokens themselves last."""
    mask: Tensor | None
    """Additive, `[tokens, tokens]`, among the tokens themselves, no token seeing a later one; `None` for one.

    All that stands before them is seen by every token.
    """


def attend(query: Tensor, keys: Tensor, values: Tensor, span: Span, scale: float) -> Tensor:
    """Attention, `[tokens, heads, value_dim]`.

    query `[heads, tokens, dim]`, keys `[kv_heads, positions, dim]`, values `[kv_heads, positions, value_dim]`.
    """
    if span.mask is None:
        return _attend_one(query, keys, values, scale)
    grouped = query.unflatten(0, (keys.shape[0], -1))
    if _is_on_gpu(query):
        return _attend_fused(grouped, keys, values, span.mask, scale)
    return _attend_in_blocks(grouped, keys, values, span.mask, scale)


def kv_dtype(query: Tensor, span: Span) -> torch.dtype:
    """In which dtype `attend` computes, so that keys and values are best read in it."""
    return torch.float32 if span.mask is None and not _is_on_gpu(query) else query.dtype


def _is_on_gpu(query: Tensor) -> bool:
    return query.is_cuda


def _attend_one(query: Tensor, keys: Tensor, values: Tensor, scale: float) -> Tensor:
    """One token; query `[heads, 1, dim]`."""
    rows = query.reshape(keys.shape[0], -1, keys.shape[2])
    if _is_on_gpu(query):
        attended = F.scaled_dot_product_attention(rows[None], keys[None], values[None], scale=scale)
    else:
        weights = torch.bmm(rows.float() * scale, keys.float().transpose(1, 2)).softmax(dim=-1)
        attended = torch.bmm(weights, values.float()).to(query.dtype)
    return attended.reshape(1, -1, values.shape[2])


def _attend_fused(query: Tensor, keys: Tensor, values: Tensor, mask: Tensor, scale: float) -> Tensor:
    """Many tokens; query `[kv_heads, group, tokens, dim]`."""
    kv_heads, group, tokens, _ = query.shape
    shape = (kv_heads, group, keys.shape[1], -1)
    whole = F.pad(mask, (keys.shape[1] - tokens, 0))
    attended = F.scaled_dot_product_attention(
        query, keys.unsqueeze(1).expand(shape), values.unsqueeze(1).expand(shape), attn_mask=whole, scale=scale
    )
    return attended.flatten(0, 1).transpose(0, 1)


def _attend_in_blocks(query: Tensor, keys: Tensor, values: Tensor, mask: Tensor, scale: float) -> Tensor:
    """Many tokens; query `[kv_heads, group, tokens, dim]`.

    The block of queries `[start, stop)` sees keys `[0, before + stop)`; the mask covers the last `stop` of them.
    """
    kv_heads, group, tokens, dim = query.shape
    before = keys.shape[1] - tokens
    scaled = query * scale
    out = query.new_empty(tokens, kv_heads * group, values.shape[-1])
    for start in range(0, tokens, _BLOCK):
        stop = min(tokens, start + _BLOCK)
        rows = scaled[:, :, start:stop].reshape(kv_heads, -1, dim)
        weights = torch.bmm(rows, keys[:, : before + stop].transpose(1, 2))
        weights.view(kv_heads, group, stop - start, -1)[..., before:].add_(mask[start:stop, :stop])
        attended = torch.bmm(weights.softmax(dim=-1), values[:, : before + stop])
        out[start:stop] = attended.view(kv_heads * group, stop - start, -1).transpose(0, 1)
    return out
