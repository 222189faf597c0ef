"""The causal convolution in front of a gated delta layer, over states in slots."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

__all__ = ["causal_conv1d_fn", "causal_conv1d_update"]


def causal_conv1d_fn(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    conv_states: Tensor,
    query_start_loc: Tensor,
    seq_lens_cpu: list[int],
    cache_indices: Tensor | None = None,
    has_initial_state: Tensor | None = None,
    activation: str | None = "silu",
    pad_slot_id: int = -1,
    **_: Any,
) -> Tensor:
    """Sequences one after the other: x `[channels, tokens]`, bounds `query_start_loc` `[sequences + 1]`.

    `conv_states` `[slots, channels, width - 1]` is read where a sequence has an initial state, and written.
    """
    bounds = query_start_loc.tolist()
    slots = range(len(bounds) - 1) if cache_indices is None else cache_indices.tolist()
    warm = [False] * (len(bounds) - 1) if has_initial_state is None else has_initial_state.tolist()
    out = torch.zeros_like(x)
    for slot, is_warm, start, end in zip(slots, warm, bounds, bounds[1:], strict=False):
        if slot == pad_slot_id or end == start:
            continue
        state = conv_states[slot]
        before = state if is_warm else torch.zeros_like(state)
        out[:, start:end] = _convolve(x[:, start:end], before, weight, bias, activation, state)
    return out


def causal_conv1d_update(
    x: Tensor,
    conv_state: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    activation: str | bool | None = None,
    cache_seqlens: Tensor | None = None,
    conv_state_indices: Tensor | None = None,
    pad_slot_id: int = -1,
    **more: Any,
) -> Tensor:
    """The next tokens of each sequence: x `[sequences, channels]` or `[sequences, channels, tokens]`."""
    assert cache_seqlens is None, "ring buffers are not implemented"
    assert more.get("intermediate_conv_window") is None, "speculative decoding is not implemented"
    tokens = x.unsqueeze(-1) if x.dim() == 2 else x
    slots = range(len(x)) if conv_state_indices is None else conv_state_indices.tolist()
    out = torch.zeros_like(tokens)
    for row, slot in enumerate(slots):
        if slot != pad_slot_id:
            state = conv_state[slot]
            out[row] = _convolve(tokens[row], state, weight, bias, activation, state)
    return out.view_as(x)


def _convolve(
    x: Tensor, before: Tensor, weight: Tensor, bias: Tensor | None, activation: str | bool | None, state: Tensor
) -> Tensor:
    """Outputs like x `[channels, tokens]`; `state`, which may be `before`, becomes the last inputs."""
    inputs = torch.cat([before, x.to(before.dtype)], dim=-1).float()
    offset = None if bias is None else bias.float()
    out = F.conv1d(inputs[None], weight.float()[:, None], offset, groups=len(weight))[0, :, -x.shape[-1] :]
    state.copy_(inputs[:, -state.shape[-1] :])
    return (F.silu(out) if activation in ("silu", "swish", True) else out).to(x.dtype)
