"""Tiny random models of each hybrid family beside the tiny tokenizer, and transformers' own forward of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import nn
from transformers import PreTrainedModel

from tests.support.tiny_tokenizer import TinyVocabulary, write_tiny_tokenizer

__all__ = ["FAMILIES", "need_recurrent_layers", "write_hybrid_folder", "write_tiny_hybrid"]

CONTEXT_TOKENS = 512
_STRUCTURAL = 4
_COMMON: dict[str, Any] = {
    "vocab_size": len(TinyVocabulary.build().tokens) + _STRUCTURAL,
    "hidden_size": 32,
    "max_position_embeddings": CONTEXT_TOKENS,
    "eos_token_id": 2,
    "bos_token_id": 1,
    "pad_token_id": 0,
    "initializer_range": 0.2,
    "tie_word_embeddings": False,
}
_ATTENTION = {"num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 48}
_GATED_DELTA = {
    "linear_num_value_heads": 4,
    "linear_num_key_heads": 2,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
    "linear_conv_kernel_dim": 4,
}
_EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}
_PATTERN = ["linear_attention", "linear_attention", "linear_attention", "full_attention"]
_MAMBA = {"mamba_n_heads": 8, "mamba_d_head": 8, "mamba_d_state": 8, "mamba_n_groups": 1, "mamba_d_conv": 4}

FAMILIES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "qwen3_next": (
        "Qwen3NextConfig",
        "Qwen3NextForCausalLM",
        {
            **_ATTENTION,
            **_GATED_DELTA,
            **_EXPERTS,
            "num_hidden_layers": 4,
            "layer_types": _PATTERN,
            "head_dim": 8,
            "shared_expert_intermediate_size": 16,
        },
    ),
    "qwen3_5": (
        "Qwen3_5TextConfig",
        "Qwen3_5ForCausalLM",
        {**_ATTENTION, **_GATED_DELTA, "num_hidden_layers": 4, "layer_types": _PATTERN, "head_dim": 8},
    ),
    "kimi_linear": (
        "KimiLinearConfig",
        "KimiLinearForCausalLM",
        {
            **_ATTENTION,
            "num_key_value_heads": 4,
            "num_hidden_layers": 4,
            "layer_types": _PATTERN,
            "kv_lora_rank": 16,
            "q_lora_rank": None,
            "qk_nope_head_dim": 8,
            "qk_rope_head_dim": 4,
            "v_head_dim": 8,
            "linear_attn_config": {"num_heads": 4, "head_dim": 8, "short_conv_kernel_size": 4},
            "num_experts": 4,
            "num_experts_per_token": 2,
            "moe_intermediate_size": 16,
        },
    ),
    "olmo_hybrid": (
        "OlmoHybridConfig",
        "OlmoHybridForCausalLM",
        {**_ATTENTION, **_GATED_DELTA, "num_hidden_layers": 4, "layer_types": _PATTERN},
    ),
    "falcon_h1": (
        "FalconH1Config",
        "FalconH1ForCausalLM",
        {**_ATTENTION, **_MAMBA, "num_hidden_layers": 2, "mamba_d_ssm": 64, "mamba_chunk_size": 16},
    ),
    "granitemoehybrid": (
        "GraniteMoeHybridConfig",
        "GraniteMoeHybridForCausalLM",
        {
            **_ATTENTION,
            **_MAMBA,
            "num_hidden_layers": 3,
            "layer_types": ["mamba", "mamba", "attention"],
            "num_local_experts": 4,
            "num_experts_per_tok": 2,
            "shared_intermediate_size": 16,
            "mamba_expand": 2,
            "mamba_chunk_size": 16,
        },
    ),
    "lfm2": (
        "Lfm2Config",
        "Lfm2ForCausalLM",
        {**_ATTENTION, "num_hidden_layers": 3, "layer_types": ["conv", "conv", "full_attention"], "conv_L_cache": 3},
    ),
    "mamba2": (
        "Mamba2Config",
        "Mamba2ForCausalLM",
        {"num_hidden_layers": 3, "num_heads": 8, "head_dim": 8, "state_size": 8, "n_groups": 1, "chunk_size": 16},
    ),
}
"""By name: config class, model class, and what the config says beside the common facts."""


def need_recurrent_layers() -> None:
    """Skip the test where transformers is older than recurrent layers need it to be."""
    if tuple(map(int, transformers.__version__.split(".")[:2])) < (5, 24):
        pytest.skip(f"transformers {transformers.__version__}: recurrent layers need 5.24 or newer")


def write_tiny_hybrid(folder: Path, family: str, *, seed: int = 0, **changes: object) -> PreTrainedModel:
    """The same as `write_hybrid_folder`, for the embedded engine; without the transformers it needs, a skipped test."""
    need_recurrent_layers()
    return write_hybrid_folder(folder, family, seed=seed, **changes)


def write_hybrid_folder(folder: Path, family: str, *, seed: int = 0, **changes: object) -> PreTrainedModel:
    """Write weights, config and tokenizer; returns the model with transformers' own forward, float32.

    `changes` are to the config.
    """
    config_name, model_name, facts = FAMILIES[family]
    make_config: Callable[..., Any] = getattr(transformers, config_name)
    make_model: Callable[..., PreTrainedModel] = getattr(transformers, model_name)
    torch.manual_seed(seed)
    config = make_config(**(_COMMON | facts | changes))
    config._attn_implementation = "eager"
    model = make_model(config).eval()
    _slow_down(model)
    model.save_pretrained(folder)
    write_tiny_tokenizer(folder)
    return model


def _slow_down(model: nn.Module) -> None:
    """Give heads the horizons of trained models: dt log-uniform in [0.001, 0.1], A in [1, 16].

    As initialised they forget within a few tokens, and a wrong state would go unnoticed.
    """
    for name, parameter in model.named_parameters():
        with torch.no_grad():
            if name.endswith("A_log"):
                parameter.copy_(torch.empty_like(parameter).uniform_(1, 16).log())
            elif name.endswith("dt_bias"):
                dt = torch.exp(torch.empty_like(parameter).uniform_(-6.9, -2.3))
                parameter.copy_(dt + torch.log(-torch.expm1(-dt)))
