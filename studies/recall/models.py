"""The two small models: Qwen3.5's architecture, so that any engine loads what is trained here."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import torch
from tokenizers import AddedToken, Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from torch import nn
from transformers import PreTrainedModel

from benchmarks.common.hybrids import build, draw_decay
from studies.recall.tasks import ASK, BOS, KEYS, NOISE, VALUES, VOCABULARY

__all__ = ["MODELS", "folder_of", "make", "save"]

MODELS = {"gdn": ("linear_attention",) * 4, "hybrid": ("linear_attention",) * 3 + ("full_attention",)}
"""Kinds of layers by the model's name."""
CONTEXT_TOKENS = 32_768
_HIDDEN = 128


def folder_of(name: str) -> Path:
    """Where the trained weights of a model are."""
    return Path(__file__).parent / "weights" / name


def make(name: str, *, seed: int) -> PreTrainedModel:
    """A model as it is before training, float32."""
    model = build(
        seed=seed,
        initialise=_initialise,
        vocab_size=VOCABULARY,
        hidden_size=_HIDDEN,
        intermediate_size=256,
        num_hidden_layers=4,
        layer_types=list(MODELS[name]),
        head_dim=32,
        max_position_embeddings=CONTEXT_TOKENS,
        bos_token_id=BOS,
    )
    with torch.no_grad():
        for module in model.modules():
            if hasattr(module, "in_proj_qkv"):
                _look_back(module)
    return model


def save(model: PreTrainedModel, folder: Path) -> None:
    """Write config, tokenizer and weights, these in bfloat16."""
    copy.deepcopy(model).bfloat16().save_pretrained(folder)
    config = folder / "config.json"
    facts = json.loads(config.read_text(encoding="utf-8")) | {"full_attention_interval": 4}  # read by servers
    config.write_text(json.dumps(facts, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    _write_tokenizer(folder)


def _initialise(path: str, parameter: nn.Parameter) -> None:
    """Linear layers keep variance, and decay rates are spread."""
    if draw_decay(path, parameter):
        return
    if "embed" in path:
        parameter.normal_(0, _HIDDEN**-0.5)
    elif "conv1d" in path:
        parameter.uniform_(-0.1, 0.1)
    elif "in_proj_a" in path or "in_proj_b" in path:
        parameter.normal_(0, 0.02)
    elif parameter.dim() == 2:
        depth = (8**-0.5) if path.endswith(("out_proj.weight", "o_proj.weight", "down_proj.weight")) else 1.0
        parameter.normal_(0, depth * parameter.shape[1] ** -0.5)


def _look_back(layer: Any) -> None:
    """Half of the heads start as a memory of pairs: a value is written under the key in front of it, and read by it.

    Queries and keys share a projection, and the convolution hands keys on by one token. Found from a random start,
    too, but not in minutes on a CPU. Which heads they are has nothing to do with how soon they forget.
    """
    size, half = layer.key_dim, layer.key_dim // 2
    layer.in_proj_qkv.weight[size : size + half] = layer.in_proj_qkv.weight[:half]
    kernel = layer.conv1d.weight
    kernel[:size, 0, -1] += 1
    kernel[size : size + half, 0, -2] += 1
    kernel[size + half :, 0, -1] += 1


def _write_tokenizer(folder: Path) -> None:
    """Words such as `k3`, `v17`, `n5`, parted by spaces."""
    names = {BOS: "<bos>", ASK: "<ask>", 2: "<eos>"}
    names |= {i: f"{sign}{i - kind.start}" for sign, kind in (("k", KEYS), ("v", VALUES), ("n", NOISE)) for i in kind}
    words = {names.get(i, f"<spare{i}>"): i for i in range(VOCABULARY)}
    tokenizer = Tokenizer(WordLevel(words, unk_token="<spare3>"))
    tokenizer.pre_tokenizer = WhitespaceSplit()
    tokenizer.add_special_tokens([AddedToken(names[i], special=True, normalized=False) for i in (BOS, ASK, 2)])
    tokenizer.save(str(folder / "tokenizer.json"))
    facts = {"bos_token": "<bos>", "eos_token": "<eos>", "tokenizer_class": "PreTrainedTokenizerFast"}
    (folder / "tokenizer_config.json").write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
