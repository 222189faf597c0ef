"""Small random models that SGLang and transformers both read: an attention-only one and two hybrids.

Sizes are what SGLang asks for (a vocabulary of whole tiles, head dimensions of 32); heads of the hybrids have the
horizons of trained models.
"""

from __future__ import annotations

import json
from pathlib import Path

import torch
from transformers import PreTrainedModel

from tests.support.tiny_hybrids import write_hybrid_folder
from tests.support.tiny_model import write_tiny_model

__all__ = ["MODELS", "VOCABULARY", "write_model"]

MODELS = ("llama", "qwen3_5", "qwen3_next")
VOCABULARY = 320
_COMMON: dict[str, object] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "max_position_embeddings": 4096,
    "tie_word_embeddings": False,
    "initializer_range": 0.05,
}
_HYBRID: dict[str, object] = {
    "linear_num_value_heads": 4,
    "linear_num_key_heads": 2,
    "linear_key_head_dim": 32,
    "linear_value_head_dim": 32,
}
_EXPERTS: dict[str, object] = {"moe_intermediate_size": 64, "shared_expert_intermediate_size": 64}
_FULL_ATTENTION_INTERVAL = 4


def write_model(folder: Path, name: str, *, seed: int = 0, **changes: object) -> PreTrainedModel:
    """Write one of `MODELS` in bfloat16 with its tokenizer; returns it as transformers runs it.

    `changes` are to the config.
    """
    if name == "llama":
        model = write_tiny_model(folder, seed=seed, **(_COMMON | changes))
    else:
        model = write_hybrid_folder(folder, name, seed=seed, **(_COMMON | _HYBRID | _EXPERTS | changes))
    model = model.to(torch.bfloat16)
    model.save_pretrained(folder)
    if name != "llama":
        _say_interval(folder / "config.json")
    return model


def _say_interval(path: Path) -> None:
    """transformers writes the kind of every layer; SGLang reads how often attention comes."""
    config = json.loads(path.read_text(encoding="utf-8"))
    config["full_attention_interval"] = _FULL_ATTENTION_INTERVAL
    path.write_text(json.dumps(config, indent=1), encoding="utf-8")
