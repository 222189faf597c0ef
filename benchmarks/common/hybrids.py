"""Small models of Qwen3.5's architecture, which any engine loads; sizes and starts are the caller's."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel, Qwen3_5ForCausalLM, Qwen3_5TextConfig

__all__ = ["build", "draw_decay"]


def draw_decay(path: str, parameter: nn.Parameter) -> bool:
    """Decay rates of a gated delta layer, log-uniform: dt in [0.001, 0.1] and A in [1, 16]; False for what is none.

    Transformers' own start is degenerate: almost every head forgets within ten tokens.
    """
    if path.endswith("A_log"):
        parameter.uniform_(1, 16).log_()
    elif path.endswith("dt_bias"):
        dt = parameter.uniform_(math.log(0.001), math.log(0.1)).exp()
        parameter.copy_(dt + torch.log(-torch.expm1(-dt)))  # softplus of it is dt
    else:
        return False
    return True


def build(
    *, seed: int, initialise: Callable[[str, nn.Parameter], object] = draw_decay, **sizes: Any
) -> PreTrainedModel:
    """A model in float32. `sizes` are `Qwen3_5TextConfig`'s; `initialise` overwrites parameters, one by one."""
    torch.manual_seed(seed)
    fixed: dict[str, Any] = {
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "linear_num_key_heads": 4,
        "linear_num_value_heads": 8,
        "linear_key_head_dim": 32,
        "linear_value_head_dim": 32,
        "linear_conv_kernel_dim": 4,
        "tie_word_embeddings": True,
        "eos_token_id": 2,
    }
    config = Qwen3_5TextConfig(**fixed | sizes)
    config._attn_implementation = "sdpa"
    model = Qwen3_5ForCausalLM(config)
    with torch.no_grad():
        for path, parameter in model.named_parameters():
            initialise(path, parameter)
    return model
