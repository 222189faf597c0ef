"""The gated delta rule over few tokens: branches that share an initial state, and a state rebuilt from last tokens.

::

    S = S * exp(g)                                  g per head, or for KDA per head and key channel
    S = S + k (beta * (v - S^T k))^T
    out = S^T q * scale

Keys and queries come as the model feeds them to the rule, normalised. A key head serves `heads / key_heads`
consecutive value heads. Sources: Gated DeltaNet, arXiv 2412.06464; Kimi Linear, arXiv 2510.26692.
"""

from __future__ import annotations

import torch
from torch import Tensor

from agentform.kernels.gated_delta import reference

__all__ = ["replay", "step_branches"]


def step_branches(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    decay: Tensor,
    beta: Tensor,
    lengths: Tensor,
    state: Tensor,
    *,
    scale: float | None = None,
) -> tuple[Tensor, Tensor]:
    """Run short branches, each from the same state; the state is read and not copied.

    query, key `[branches, tokens, key_heads, key_dim]`, value `[branches, tokens, heads, value_dim]`, decay (log,
    at most 0) `[branches, tokens, heads, 1]` or `[..., key_dim]`, beta `[branches, tokens, heads]`, lengths int32
    `[branches]`: what lies after a branch's end is not read. state `[heads, key_dim, value_dim]`. `scale` of queries
    is by default `key_dim ** -0.5`.

    Returns outputs like value, zero after a branch's end, and final states float32
    `[branches, heads, key_dim, value_dim]`.
    """
    _check(value.dim() == 4, f"value has shape {list(value.shape)}, not [branches, tokens, heads, value_dim]")
    branches, tokens, heads, value_dim = value.shape
    _check(query.shape == key.shape and key.shape[:2] == (branches, tokens), "query and key must be alike")
    _check(heads % key.shape[2] == 0, f"{heads} heads are no multiple of {key.shape[2]} key heads")
    _check(state.shape == (heads, key.shape[3], value_dim), f"state has shape {list(state.shape)}")
    _check(decay.shape[:3] == (branches, tokens, heads) and decay.shape[3] in (1, key.shape[3]), "decay does not fit")
    _check(beta.shape == (branches, tokens, heads), "beta does not fit")
    _check(lengths.shape == (branches,) and lengths.dtype == torch.int32, "lengths must be int32 [branches]")
    factor = key.shape[3] ** -0.5 if scale is None else scale
    with torch.cuda.device_of(state):
        return _backend(state).step_branches(query, key, value, decay, beta, lengths, state, factor)


def replay(key: Tensor, value: Tensor, decay: Tensor, beta: Tensor, heads: Tensor, state: Tensor) -> None:
    """Rebuild the states of some heads from zero with the last tokens; other heads stay as they are.

    key `[tokens, key_heads, key_dim]`, value `[tokens, all_heads, value_dim]`, decay (log) `[tokens, all_heads, 1]`
    or `[..., key_dim]`, beta `[tokens, all_heads]`, heads int32 `[n]` (which to rebuild), state
    `[all_heads, key_dim, value_dim]`, written in place. What lies before the tokens is lost: with a decay of g per
    token, exp(g * tokens) of it.
    """
    _check(value.dim() == 3, f"value has shape {list(value.shape)}, not [tokens, heads, value_dim]")
    tokens, all_heads, value_dim = value.shape
    _check(key.dim() == 3 and len(key) == tokens and all_heads % key.shape[1] == 0, "key does not fit value")
    _check(state.shape == (all_heads, key.shape[2], value_dim), f"state has shape {list(state.shape)}")
    _check(decay.shape[:2] == (tokens, all_heads) and decay.shape[2] in (1, key.shape[2]), "decay does not fit")
    _check(beta.shape == (tokens, all_heads), "beta does not fit")
    _check(heads.dim() == 1 and heads.dtype == torch.int32, "heads must be int32 [n]")
    with torch.cuda.device_of(state):
        _backend(state).replay(key, value, decay, beta, heads, state)


def _backend(state: Tensor):
    if state.device.type != "cuda":
        return reference
    from agentform.kernels.gated_delta import triton

    return triton


def _check(holds: bool, message: str) -> None:
    if not holds:
        raise ValueError(message)
