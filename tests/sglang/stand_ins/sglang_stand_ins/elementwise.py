"""Gates, gated norms, and the split of a projection into queries, keys, values and gates."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

__all__ = [
    "fused_gate_sigmoid_mul",
    "fused_gate_sigmoid_mul_add",
    "fused_qkvzba_split_reshape_cat",
    "fused_qkvzba_split_reshape_cat_contiguous",
    "fused_sigmoid_mul",
    "layernorm_fn",
    "rms_norm_gated",
]


def fused_sigmoid_mul(attn_output: Tensor, gate: Tensor, inplace: bool = False) -> Tensor:
    """Attention's output `[tokens, dim]` behind its gate, which may come as `[tokens, heads, head_dim]`."""
    gated = attn_output * torch.sigmoid(gate.reshape(attn_output.shape))
    return attn_output.copy_(gated) if inplace else gated


def fused_gate_sigmoid_mul(hidden_states: Tensor, gate_weight: Tensor, shared_output: Tensor) -> Tensor:
    """The shared expert's output behind the gate that its input sets."""
    gate = torch.sigmoid(hidden_states.float() @ gate_weight.float())
    return (gate[:, None] * shared_output.float()).to(shared_output.dtype)


def fused_gate_sigmoid_mul_add(
    hidden_states: Tensor, gate_weight: Tensor, shared_output: Tensor, final_hidden_states: Tensor
) -> None:
    """The same, added to what the routed experts made."""
    final_hidden_states.add_(fused_gate_sigmoid_mul(hidden_states, gate_weight, shared_output))


def fused_qkvzba_split_reshape_cat(
    mixed_qkvz: Tensor, mixed_ba: Tensor, num_heads_qk: int, num_heads_v: int, head_qk: int, head_v: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """From Qwen3-Next's projections, which are ordered by key head, to (q, k, v), z, b and a, ordered by kind."""
    tokens, per_key_head = len(mixed_qkvz), num_heads_v // num_heads_qk
    widths = [head_qk, head_qk, per_key_head * head_v, per_key_head * head_v]
    q, k, v, z = (each.reshape(tokens, -1) for each in mixed_qkvz.view(tokens, num_heads_qk, -1).split(widths, dim=-1))
    b, a = (
        each.reshape(tokens, -1) for each in mixed_ba.view(tokens, num_heads_qk, -1).split([per_key_head] * 2, dim=-1)
    )
    return torch.cat([q, k, v], dim=-1), z.view(tokens, num_heads_v, head_v), b, a


def fused_qkvzba_split_reshape_cat_contiguous(
    mixed_qkvz: Tensor, mixed_ba: Tensor, num_heads_qk: int, num_heads_v: int, head_qk: int, head_v: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The same from Qwen3.5's projections, which are ordered by kind already."""
    mixed, z = mixed_qkvz.split([2 * num_heads_qk * head_qk + num_heads_v * head_v, num_heads_v * head_v], dim=-1)
    b, a = (each.contiguous() for each in mixed_ba.split([num_heads_v] * 2, dim=-1))
    return mixed.contiguous(), z.reshape(len(z), num_heads_v, head_v), b, a


def rms_norm_gated(
    x: Tensor,
    g: Tensor | None,
    weight: Tensor | None,
    bias: Tensor | None,
    activation: str = "swish",
    residual: Tensor | None = None,
    prenorm: bool = False,
    residual_in_fp32: bool = False,
    eps: float = 1e-6,
) -> Tensor:
    """Root mean square norm over the last dimension, then the gate."""
    assert residual is None, "residuals are not implemented"
    assert not prenorm, "residuals are not implemented"
    normed = x.float() * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + eps)
    normed = normed if weight is None else normed * weight.float()
    normed = normed if bias is None else normed + bias.float()
    if g is not None:
        normed = normed * (torch.sigmoid(g.float()) if activation == "sigmoid" else F.silu(g.float()))
    return normed.to(x.dtype)


def layernorm_fn(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    z: Tensor | None = None,
    eps: float = 1e-6,
    group_size: int | None = None,
    norm_before_gate: bool = True,
    is_rms_norm: bool = False,
    activation: str = "swish",
) -> Tensor:
    """The same under the name that Qwen3-Next's layers use."""
    assert is_rms_norm, "not implemented"
    assert norm_before_gate, "not implemented"
    assert group_size in (None, x.shape[-1]), "not implemented"
    return rms_norm_gated(x, z, weight, bias, activation, eps=eps)
