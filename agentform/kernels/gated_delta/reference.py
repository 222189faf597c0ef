"""`gated_delta` in plain torch, float32, one token after the other."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["replay", "step_branches"]


def step_branches(
    query: Tensor, key: Tensor, value: Tensor, decay: Tensor, beta: Tensor, lengths: Tensor, state: Tensor, scale: float
) -> tuple[Tensor, Tensor]:
    """See `agentform.kernels.gated_delta.step_branches`."""
    branches, tokens, heads, _ = value.shape
    query, key = (_spread(each, heads, dim=2) for each in (query, key))
    states = state.float().expand(branches, *state.shape).clone()
    out = torch.zeros(value.shape, dtype=torch.float32, device=value.device)
    for token in range(tokens):
        running = lengths > token
        if running.any():
            parts = (each[running, token].float() for each in (key, value, decay, beta))
            states[running] = _step(states[running], *parts)
            read = query[running, token].float() * scale
            out[running, token] = torch.einsum("bhkv,bhk->bhv", states[running], read)
    return out.to(value.dtype), states


def replay(key: Tensor, value: Tensor, decay: Tensor, beta: Tensor, heads: Tensor, state: Tensor) -> None:
    """See `agentform.kernels.gated_delta.replay`."""
    key = _spread(key, value.shape[1], dim=1)
    chosen = heads.long()
    rebuilt = torch.zeros(len(heads), *state.shape[1:], dtype=torch.float32, device=state.device)
    for token in range(len(value)):
        parts = (each[token, chosen].float() for each in (key, value, decay, beta))
        rebuilt = _step(rebuilt, *parts)
    state[chosen] = rebuilt.to(state.dtype)


def _spread(key: Tensor, heads: int, *, dim: int) -> Tensor:
    """A key head serves consecutive value heads."""
    return key.repeat_interleave(heads // key.shape[dim], dim=dim)


def _step(state: Tensor, key: Tensor, value: Tensor, decay: Tensor, beta: Tensor) -> Tensor:
    """One token: state `[..., key_dim, value_dim]`, decay `[..., 1]` or `[..., key_dim]` in log space, beta `[...]`."""
    state = state * decay.exp().unsqueeze(-1)
    known = torch.einsum("...kv,...k->...v", state, key)
    return state + key.unsqueeze(-1) * ((value - known) * beta.unsqueeze(-1)).unsqueeze(-2)
