"""Qwen3.5's forward over whole sequences, for training on a CPU: the same function in fewer and larger operations.

Gated delta rule in chunks after Yang et al., arXiv 2412.06464. The recurrence is computed in float32 also under
autocast: the systems of chunks are ill-conditioned where keys are alike.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

__all__ = ["forward"]

_CHUNK = 32


def forward(model: Any, ids: Tensor, positions: Tensor) -> Tensor:
    """Hidden states behind the last norm, `[batch, tokens, dim]`, of ids `[batch, tokens]` at positions `[tokens]`."""
    text = model.model
    hidden = text.embed_tokens(ids)
    places = text.rotary_emb(hidden, positions.expand(3, 1, -1))
    for kind, layer in zip(text.config.layer_types, text.layers, strict=True):
        normed = _norm(hidden, layer.input_layernorm)
        if kind == "linear_attention":
            hidden = hidden + _gated_delta_net(layer.linear_attn, normed)
        else:
            hidden = hidden + layer.self_attn(normed, position_embeddings=places, attention_mask=None)[0]
        normed, mlp = _norm(hidden, layer.post_attention_layernorm), layer.mlp
        hidden = hidden + mlp.down_proj(F.silu(mlp.gate_proj(normed)) * mlp.up_proj(normed))
    return _norm(hidden, text.norm)


def _norm(hidden: Tensor, norm: Any) -> Tensor:
    return F.rms_norm(hidden.float(), hidden.shape[-1:], 1 + norm.weight, norm.eps)


def _gated_delta_net(layer: Any, hidden: Tensor) -> Tensor:
    batch, tokens, _ = hidden.shape
    mixed = _convolve(layer.in_proj_qkv(hidden), layer.conv1d.weight)
    query, key, value = mixed.split([layer.key_dim, layer.key_dim, layer.value_dim], dim=-1)
    query, key = (each.view(batch, tokens, -1, layer.head_k_dim) for each in (query, key))
    value = value.view(batch, tokens, -1, layer.head_v_dim)
    decay = -layer.A_log.exp() * F.softplus(layer.in_proj_a(hidden) + layer.dt_bias)
    beta = layer.in_proj_b(hidden).sigmoid()
    with torch.autocast("cpu", enabled=False):
        out = _gated_delta(*(each.float() for each in (query, key, value, decay, beta)))
    out = F.rms_norm(out.float(), out.shape[-1:], layer.norm.weight, layer.norm.variance_epsilon)
    gate = F.silu(layer.in_proj_z(hidden).view(batch, tokens, -1, layer.head_v_dim))
    return layer.out_proj((out * gate).reshape(batch, tokens, -1))


def _convolve(inputs: Tensor, weight: Tensor) -> Tensor:
    """Causal, one kernel per channel: inputs `[batch, tokens, channels]`, weight `[channels, 1, kernel]`."""
    kernel, tokens = weight.shape[-1], inputs.shape[1]
    padded = F.pad(inputs, (0, 0, kernel - 1, 0))
    out = padded[:, :tokens] * weight[:, 0, 0]
    for lag in range(1, kernel):
        out = out + padded[:, lag : lag + tokens] * weight[:, 0, lag]
    return F.silu(out)


def _gated_delta(query: Tensor, key: Tensor, value: Tensor, decay: Tensor, beta: Tensor) -> Tensor:
    """query and key `[batch, tokens, key heads, d_k]`, value `[batch, tokens, heads, d_v]`, rates `[..., heads]`.

    Written `[batch, chunks, heads, chunk, d]` from here on.
    """
    batch, tokens, heads, _ = value.shape
    query, key, value, decay, beta = (_chunks(each) for each in (query, key, value, decay, beta))
    query = _unit(query) * query.shape[-1] ** -0.5
    key = _unit(key)
    repeats = heads // key.shape[2]
    likeness, attention = key @ key.transpose(-1, -2), query @ key.transpose(-1, -2)
    if repeats > 1:
        likeness, attention, query, key = (
            each.repeat_interleave(repeats, dim=2) for each in (likeness, attention, query, key)
        )
    since = decay.cumsum(dim=-1)
    future = torch.ones(_CHUNK, _CHUNK, dtype=torch.bool).triu(1)
    between = (since.unsqueeze(-1) - since.unsqueeze(-2)).masked_fill(future, float("-inf")).exp()
    attention = attention * between
    system = likeness * between * beta.unsqueeze(-1)
    reach, beta = since.exp().unsqueeze(-1), beta.unsqueeze(-1)
    given = torch.cat([value * beta, key * (beta * reach)], dim=-1)
    solved = torch.linalg.solve_triangular(system, given, upper=False, unitriangular=True)
    new, read = solved.split([value.shape[-1], key.shape[-1]], dim=-1)
    written = key * (since[..., -1:] - since).exp().unsqueeze(-1)
    out = _scan(query * reach, attention, new, read, written.transpose(-1, -2), reach[..., -1:, :])
    return out.transpose(2, 3).reshape(batch, -1, heads, value.shape[-1])[:, :tokens]


def _scan(query: Tensor, attention: Tensor, new: Tensor, read: Tensor, written: Tensor, left: Tensor) -> Tensor:
    """Chunk by chunk through the state `[batch, heads, d_k, d_v]`."""
    state = new.new_zeros(*query.shape[:1], *query.shape[2:3], query.shape[-1], new.shape[-1])
    deltas: list[Tensor] = []
    remembered: list[Tensor] = []
    for q, u, w, k, decay in zip(*(each.unbind(1) for each in (query, new, read, written, left)), strict=True):
        deltas.append(u - w @ state)
        remembered.append(q @ state)
        state = state * decay + k @ deltas[-1]
    return torch.stack(remembered, dim=1) + attention @ torch.stack(deltas, dim=1)


def _unit(vectors: Tensor) -> Tensor:
    return vectors * torch.rsqrt((vectors * vectors).sum(dim=-1, keepdim=True) + 1e-6)


def _chunks(each: Tensor) -> Tensor:
    """`[batch, tokens, heads, ...]` to `[batch, chunks, heads, chunk, ...]`, padded with zeros: no decay, no write."""
    padding = -each.shape[1] % _CHUNK
    if padding:
        each = F.pad(each, (0, 0) * (each.dim() - 2) + (0, padding))
    return each.unflatten(1, (-1, _CHUNK)).transpose(2, 3)
