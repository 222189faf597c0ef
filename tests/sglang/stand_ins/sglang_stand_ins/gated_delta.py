"""The gated delta rule over states in slots `[slots, heads, value_dim, key_dim]`, token by token."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

__all__ = ["chunk_gated_delta_rule", "fused_gdn_gating", "packed_decode", "track_mamba_states_all_layers"]

CHUNK_TOKENS = 64
"""Of how many tokens SGLang's kernel makes a chunk, at the start of each of which it can report the state."""


def chunk_gated_delta_rule(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor,
    beta: Tensor,
    scale: float | None = None,
    initial_state: Tensor | None = None,
    initial_state_indices: Tensor | None = None,
    cu_seqlens: Tensor | None = None,
    head_first: bool = False,
    use_qk_l2norm_in_kernel: bool = False,
    inplace_update: bool = True,
) -> tuple[Tensor, None, Tensor]:
    """Sequences one after the other: q, k `[1, tokens, key_heads, key_dim]`, v `[1, tokens, heads, value_dim]`.

    Returns outputs like v and the states at the start of each chunk `[1, chunks, heads, value_dim, key_dim]`.
    """
    assert not head_first, "head_first is not implemented"
    assert initial_state is not None, "states without slots are not implemented"
    assert initial_state_indices is not None
    assert cu_seqlens is not None
    queries, keys = (_per_head(each[0], v.shape[2], use_qk_l2norm_in_kernel) for each in (q, k))
    out, chunks = torch.zeros_like(v), []
    bounds = cu_seqlens.tolist()
    for slot, start, end in zip(initial_state_indices.tolist(), bounds, bounds[1:], strict=False):
        state = torch.zeros_like(initial_state[0], dtype=torch.float32)
        if slot >= 0:
            state.copy_(initial_state[slot])
        for first in range(start, end, CHUNK_TOKENS):
            chunks.append(state)
            at = slice(first, min(first + CHUNK_TOKENS, end))
            state, out[0, at] = _scan(
                state, queries[at], keys[at], v[0, at].float(), g[0, at], beta[0, at], scale or k.shape[-1] ** -0.5
            )
        if inplace_update and slot >= 0 and end > start:
            initial_state[slot] = state.to(initial_state.dtype)
    return out, None, torch.stack(chunks)[None].to(q.dtype) if chunks else v.new_zeros(1, 0)


def packed_decode(
    mixed_qkv: Tensor,
    a: Tensor,
    b: Tensor,
    A_log: Tensor,
    dt_bias: Tensor,
    scale: float,
    initial_state: Tensor,
    out: Tensor,
    ssm_state_indices: Tensor,
    use_qk_l2norm_in_kernel: bool = False,
) -> tuple[Tensor, Tensor]:
    """One token of each sequence; mixed_qkv `[sequences, channels]`, out `[sequences, 1, heads, value_dim]`."""
    heads, value_dim, key_dim = initial_state.shape[1:]
    key_heads = (mixed_qkv.shape[1] - heads * value_dim) // (2 * key_dim)
    widths = [key_heads * key_dim, key_heads * key_dim, heads * value_dim]
    q, k, v = mixed_qkv.float().split(widths, dim=-1)
    queries = _per_head(q.view(len(q), key_heads, key_dim), heads, use_qk_l2norm_in_kernel)
    keys = _per_head(k.view(len(k), key_heads, key_dim), heads, use_qk_l2norm_in_kernel)
    decay, beta = fused_gdn_gating(A_log, a, b, dt_bias)
    for row, slot in enumerate(ssm_state_indices.tolist()):
        if slot >= 0:
            at = slice(row, row + 1)
            values = v[at].view(1, heads, value_dim)
            before = initial_state[slot].float()
            state, result = _scan(before, queries[at], keys[at], values, decay[0, at], beta[0, at], scale)
            initial_state[slot] = state.to(initial_state.dtype)
            out[row, 0] = result[0].to(out.dtype)
    return out, initial_state


def fused_gdn_gating(
    A_log: Tensor,
    a: Tensor,
    b: Tensor,
    dt_bias: Tensor,
    beta: float = 1.0,
    threshold: float = 20.0,
) -> tuple[Tensor, Tensor]:
    """Log decay and beta, float32 `[1, tokens, heads]`, of gate inputs `[tokens, heads]`."""
    step = F.softplus(a.float() + dt_bias.float(), beta, threshold)
    return (-A_log.float().exp() * step)[None], b.float().sigmoid()[None]


def track_mamba_states_all_layers(
    conv_states_pool: Tensor,
    ssm_states_pool: Tensor,
    cache_indices: Tensor,
    mamba_track_mask: Tensor,
    mamba_track_indices: Tensor,
    batch_size: int,
    check_freed_slots: bool = False,
) -> None:
    """Copy the states `[layers, slots, ...]` of the marked sequences into the slots that keep track of them."""
    marked = mamba_track_mask[:batch_size].bool()
    source, target = cache_indices[:batch_size][marked].long(), mamba_track_indices[:batch_size][marked].long()
    if check_freed_slots:
        live = (source >= 0) & (target >= 0)
        source, target = source[live], target[live]
    for pool in (conv_states_pool, ssm_states_pool):
        pool[:, target] = pool[:, source]


def _per_head(x: Tensor, heads: int, normalise: bool) -> Tensor:
    """Keys or queries `[tokens, key_heads, key_dim]` for each value head, float32."""
    x = x.float()
    if normalise:
        x = x * torch.rsqrt(x.pow(2).sum(-1, keepdim=True) + 1e-6)
    return x.repeat_interleave(heads // x.shape[1], dim=1)


def _scan(
    state: Tensor, queries: Tensor, keys: Tensor, values: Tensor, decay: Tensor, beta: Tensor, scale: float
) -> tuple[Tensor, Tensor]:
    """The state after the tokens, and outputs `[tokens, heads, value_dim]`; the given state is not written."""
    keep, share = decay.float().exp()[..., None, None], beta.float()[..., None]
    queries = (queries * scale)[..., None]
    outputs = []
    for token, key in enumerate(keys):
        state = state * keep[token]
        error = (values[token] - (state @ key[..., None])[..., 0]) * share[token]
        state = state + error[..., None] * key[:, None, :]
        outputs.append((state @ queries[token])[..., 0])
    return state, torch.stack(outputs)
