"""Models of Llama's shape, defined and loaded here: importing transformers' definitions takes longer than loading.

Computes what transformers' Llama, Mistral and Qwen2 compute, operation by operation, and names its parts as they do.
A configuration with anything that is not known here gives no model; transformers then loads it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["DenseConfig", "DenseLayer", "DenseModel", "load_dense_model"]

_FAMILIES = frozenset(("llama", "mistral", "qwen2"))
_TENSORS_AT_ONCE = 9
"""As many as a layer has."""
_FOREIGN = frozenset(("auto_map", "partial_rotary_factor", "quantization_config", "rope_scaling", "text_config"))
"""Entries that, where they say something, change what is computed."""


@dataclass(frozen=True, kw_only=True)
class DenseConfig:
    """What config.json says of the shape, under its own names."""

    model_type: str
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    vocab_size: int
    max_position_embeddings: int
    rms_norm_eps: float
    rope_theta: float
    tie_word_embeddings: bool

    def get_text_config(self) -> DenseConfig:
        """Itself, as transformers' configurations of text models."""
        return self

    @classmethod
    def of(cls, said: Mapping[str, Any]) -> DenseConfig | None:
        """The configuration; `None` where it says anything that is not known here."""
        slides = said.get("sliding_window") and said.get("use_sliding_window", said.get("model_type") != "qwen2")
        rope = said.get("rope_parameters") or {"rope_type": "default", "rope_theta": said.get("rope_theta")}
        if (
            said.get("model_type") not in _FAMILIES
            or said.get("hidden_act") != "silu"
            or any(said.get(key) for key in _FOREIGN)
            or set(said.get("layer_types") or ()) - {"full_attention"}
            or set(rope) - {"rope_type", "rope_theta"}
            or rope.get("rope_type") != "default"
            or slides
        ):
            return None
        heads = said.get("num_attention_heads") or 1
        found = {name: said.get(name) for name in cls.__dataclass_fields__} | {
            "num_key_value_heads": said.get("num_key_value_heads") or heads,
            "head_dim": said.get("head_dim") or said.get("hidden_size", 0) // heads,
            "rope_theta": rope.get("rope_theta"),
            "tie_word_embeddings": bool(said.get("tie_word_embeddings")),
        }
        return None if None in found.values() else cls(**found)  # pyright: ignore[reportArgumentType]


class _RMSNorm(nn.Module):
    def __init__(self, size: int, epsilon: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(size))
        self.variance_epsilon = epsilon

    def forward(self, hidden: Tensor) -> Tensor:
        wide = hidden.float()
        scaled = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.variance_epsilon)
        return self.weight * scaled.to(hidden.dtype)


class _Rotary(nn.Module):
    def __init__(self, config: DenseConfig) -> None:
        super().__init__()
        self._theta = config.rope_theta
        self._size = config.head_dim

    def forward(self, hidden: Tensor, position_ids: Tensor) -> tuple[Tensor, Tensor]:
        """Cosine and sine, `[1, tokens, head_dim]` each."""
        powers = torch.arange(0, self._size, 2, dtype=torch.float, device="cpu") / self._size
        angles = position_ids[..., None].float() * (1.0 / self._theta**powers).to(hidden.device)
        twice = torch.cat((angles, angles), dim=-1)
        return twice.cos().to(hidden.dtype), twice.sin().to(hidden.dtype)


def _rotated(heads: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    low, high = heads.chunk(2, dim=-1)
    return heads * cos + torch.cat((-high, low), dim=-1) * sin


class _Attention(nn.Module):
    def __init__(self, config: DenseConfig, layer: int, biased: frozenset[str]) -> None:
        super().__init__()
        self.layer_idx = layer
        self.head_dim = config.head_dim
        self.scaling = config.head_dim**-0.5
        inner, shared = config.num_attention_heads * self.head_dim, config.num_key_value_heads * self.head_dim
        self.q_proj = nn.Linear(config.hidden_size, inner, bias="q_proj" in biased)
        self.k_proj = nn.Linear(config.hidden_size, shared, bias="k_proj" in biased)
        self.v_proj = nn.Linear(config.hidden_size, shared, bias="v_proj" in biased)
        self.o_proj = nn.Linear(inner, config.hidden_size, bias="o_proj" in biased)

    def forward(
        self, hidden_states: Tensor, *, position_embeddings: tuple[Tensor, Tensor], agentform_step: Any
    ) -> tuple[Tensor, None]:
        cos, sin = (each.unsqueeze(1) for each in position_embeddings)
        query, key, value = (
            each(hidden_states).unflatten(-1, (-1, self.head_dim)).transpose(1, 2)
            for each in (self.q_proj, self.k_proj, self.v_proj)
        )
        query, key = _rotated(query, cos, sin), _rotated(key, cos, sin)
        attended = agentform_step.attend(self.layer_idx, query, key, value, self.scaling)
        return self.o_proj(attended.flatten(2)), None


class _MLP(nn.Module):
    def __init__(self, config: DenseConfig, biased: frozenset[str]) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias="gate_proj" in biased)
        self.up_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias="up_proj" in biased)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias="down_proj" in biased)
        self.act_fn = nn.SiLU()

    def forward(self, hidden: Tensor) -> Tensor:
        return self.down_proj(self.act_fn(self.gate_proj(hidden)) * self.up_proj(hidden))


class DenseLayer(nn.Module):
    """Attention, then the MLP, each on what is normed before and added to what was there."""

    def __init__(self, config: DenseConfig, layer: int, biased: frozenset[str]) -> None:
        super().__init__()
        self.self_attn = _Attention(config, layer, biased)
        self.mlp = _MLP(config, biased)
        self.input_layernorm = _RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.post_attention_layernorm = _RMSNorm(config.hidden_size, config.rms_norm_eps)

    def forward(
        self, hidden_states: Tensor, *, position_embeddings: tuple[Tensor, Tensor], agentform_step: Any
    ) -> Tensor:
        """`[1, tokens, dim]` to the same shape."""
        attended, _ = self.self_attn(
            hidden_states=self.input_layernorm(hidden_states),
            position_embeddings=position_embeddings,
            agentform_step=agentform_step,
        )
        hidden = hidden_states + attended
        return hidden + self.mlp(self.post_attention_layernorm(hidden))


class _Embedding(nn.Embedding):
    def reset_parameters(self) -> None:
        """Weights come from a file; drawing random ones on torch's meta device imports its compiler."""


class _Stack(nn.Module):
    def __init__(self, config: DenseConfig, biased: frozenset[str]) -> None:
        super().__init__()
        self.embed_tokens = _Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(DenseLayer(config, layer, biased) for layer in range(config.num_hidden_layers))
        self.norm = _RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.rotary_emb = _Rotary(config)


class DenseModel(nn.Module):
    """Called as transformers' causal language models are, with `agentform_step` to attend through."""

    def __init__(self, config: DenseConfig, biased: frozenset[str] = frozenset()) -> None:
        """`biased` are the names of projections that add a bias."""
        super().__init__()
        self.config = config
        self.model = _Stack(config, biased)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)

    @property
    def dtype(self) -> torch.dtype:
        """Of the weights."""
        return self.model.embed_tokens.weight.dtype

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.model.embed_tokens.weight.device

    def forward(
        self, *, input_ids: Tensor, position_ids: Tensor, logits_to_keep: Tensor, agentform_step: Any, **_: Any
    ) -> SimpleNamespace:
        """`logits` `[1, rows, vocabulary]` for ids and positions `[1, tokens]`, of the tokens in `logits_to_keep`."""
        hidden = self.model.embed_tokens(input_ids)
        rotary = self.model.rotary_emb(hidden, position_ids)
        for layer in self.model.layers:
            hidden = layer(hidden, position_embeddings=rotary, agentform_step=agentform_step)
        return SimpleNamespace(logits=self.lm_head(self.model.norm(hidden)[:, logits_to_keep]))


def load_dense_model(folder: Path, *, dtype: torch.dtype, device: torch.device) -> DenseModel | None:
    """The model of a folder with safetensors; `None` where it is of another shape than is known here."""
    config = DenseConfig.of(json.loads((folder / "config.json").read_text(encoding="utf-8")))
    files = _weight_files(folder)
    if config is None or not files:
        return None
    tensors = _read(files)
    if config.tie_word_embeddings:
        tensors["lm_head.weight"] = tensors.get("model.embed_tokens.weight", torch.empty(0))
    biased = frozenset(name.split(".")[-2] for name in tensors if name.endswith("proj.bias"))
    with torch.device("meta"):
        model = DenseModel(config, biased)
    wanted = model.state_dict()
    if {name: tensor.shape for name, tensor in tensors.items()} != {n: t.shape for n, t in wanted.items()}:
        return None
    tied = config.tie_word_embeddings
    placed = {name: tensor.to(device=device, dtype=dtype) for name, tensor in tensors.items()}
    model.load_state_dict(placed, assign=True)
    if tied:
        model.lm_head.weight = model.model.embed_tokens.weight
    return model.requires_grad_(False).eval()


def _weight_files(folder: Path) -> list[Path]:
    """Those that transformers reads; a folder may hold others beside them."""
    if (whole := folder / "model.safetensors").is_file():
        return [whole]
    if not (index := folder / "model.safetensors.index.json").is_file():
        return []
    names = json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()
    return [folder / name for name in sorted(set(names))]


def _read(files: list[Path]) -> dict[str, Tensor]:
    """Copies of all tensors. A file is mapped anew every few tensors: pages that were read count as the process's."""
    from safetensors import safe_open

    tensors: dict[str, Tensor] = {}
    for file in files:
        with safe_open(file, framework="pt") as whole:
            names = [name for name in whole.keys() if not name.endswith("rotary_emb.inv_freq")]  # noqa: SIM118 - no mapping
        for start in range(0, len(names), _TENSORS_AT_ONCE):
            with safe_open(file, framework="pt") as part:
                tensors |= {n: part.get_tensor(n).clone() for n in names[start : start + _TENSORS_AT_ONCE]}
    return tensors
