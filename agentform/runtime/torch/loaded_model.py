"""A model, its tokenizer and what identifies them, ready for an engine."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import PreTrainedModel

from agentform.errors import EngineError
from agentform.runtime.torch.adapter import load_model
from agentform.runtime.torch.products import Weights, make_products
from agentform.runtime.torch.tokenizer import HFTokenizer

__all__ = ["LoadedModel", "default_dtype", "digest_of", "load"]

_WEIGHTS = ("*.safetensors", "*.gguf", "*.bin", "*.json", "*.jinja", "*.model")


@dataclass(frozen=True, kw_only=True)
class LoadedModel:
    """The parts of an engine that come from disk."""

    model: PreTrainedModel
    tokenizer: HFTokenizer
    name: str
    digest: str
    """Identifies weights, dtype and tokenizer."""


def load(
    folder: Path, *, name: str, dtype: torch.dtype | None, device: torch.device, weights: Weights = "both"
) -> LoadedModel:
    """Read a model folder. `dtype` `None` is bfloat16 where the device computes in it, else float32.

    `weights` says what is kept of weights that the folder has in 4 bits too, see `TorchEngine`.

    Raises EngineError for a model that the engine cannot serve.
    """
    if not (folder / "config.json").is_file():
        raise EngineError(f"{folder} holds no config.json and so is no model folder")
    chosen = dtype or default_dtype(device)
    model = load_model(folder, dtype=chosen, device=device)
    kept = make_products(model, folder, weights)
    return LoadedModel(
        model=model,
        tokenizer=HFTokenizer(folder),
        name=name,
        digest=digest_of(folder, chosen, weights=kept),
    )


def default_dtype(device: torch.device) -> torch.dtype:
    """bfloat16 where the device has instructions for it, else float32."""
    if device.type == "cuda":
        return torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float32
    probes = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
    fast = device.type == "cpu" and any(getattr(torch.cpu, probe, lambda: False)() for probe in probes)
    return torch.bfloat16 if fast else torch.float32


def digest_of(folder: Path, dtype: torch.dtype, *, weights: Weights = "wide") -> str:
    """Hex digest of the folder's manifest, or of file names, sizes and times, without reading weights."""
    manifest = folder / "manifest.json"
    if manifest.is_file():
        facts = manifest.read_bytes()
    else:
        files = sorted({path for pattern in _WEIGHTS for path in folder.glob(pattern)})
        stats = [(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in files]
        facts = json.dumps(stats).encode()
    computed = str(dtype) if weights == "wide" else f"{dtype} {weights}"
    return hashlib.sha256(facts + computed.encode()).hexdigest()
