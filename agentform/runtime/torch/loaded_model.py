"""A model, its tokenizer and what identifies them, ready for an engine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from agentform._util.freed_memory import give_back_freed_memory
from agentform.errors import EngineError
from agentform.runtime.models.adapter_file import adapter_digest
from agentform.runtime.models.checked import check_config, readable
from agentform.runtime.models.digest import digest_of
from agentform.runtime.tokenizer.hf_tokenizer import HFTokenizer
from agentform.runtime.torch.cpu.select import Weights, make_products
from agentform.runtime.torch.forward.merged_adapter import merge_adapter
from agentform.runtime.torch.forward.transformers_adapter import CausalModel, load_model

__all__ = ["LoadedModel", "default_dtype", "load"]


@dataclass(frozen=True, kw_only=True)
class LoadedModel:
    """The parts of an engine that come from disk."""

    model: CausalModel
    tokenizer: HFTokenizer
    name: str
    digest: str
    """Identifies weights, dtype and tokenizer."""
    adapter: Path | None = None
    """The folder of the adapter that was laid over them."""


def load(
    folder: Path,
    *,
    name: str,
    dtype: torch.dtype | None,
    device: torch.device,
    weights: Weights = "both",
    adapter: Path | None = None,
) -> LoadedModel:
    """Read a model folder. `dtype` `None` is bfloat16 where the device computes in it, else float32.

    `weights` says what is kept of weights that the folder has in 4 bits too, see `TorchEngine`. float32 that is asked
    for is computed with wide ones: 4-bit products round what they multiply to bfloat16. An `adapter` is laid over the
    wide weights, and there are no others then.

    Raises:
        WeightsCorrupt: files are missing, damaged or do not belong together; a tensor that is missing is named.
        EngineError: for a model that the engine cannot serve.
    """
    if not (folder / "config.json").is_file():
        raise EngineError(f"{folder} holds no config.json and so is no model folder")
    check_config(folder)
    chosen = dtype or default_dtype(device)
    with readable(folder):
        model = load_model(folder, dtype=chosen, device=device)
        if adapter is not None:
            merge_adapter(model, adapter)
        kept = make_products(model, folder, "wide" if dtype == torch.float32 or adapter else weights)
        tokenizer = HFTokenizer(folder)
    give_back_freed_memory()  # reading a vocabulary of 50,000 tokens leaves 18 MB behind
    digest = digest_of(folder, chosen if kept == "wide" else f"{chosen} {kept}")
    return LoadedModel(
        model=model,
        tokenizer=tokenizer,
        name=name,
        digest=digest if adapter is None else adapter_digest(digest, adapter),
        adapter=adapter,
    )


def default_dtype(device: torch.device) -> torch.dtype:
    """bfloat16 where the device has instructions for it, else float32."""
    if device.type == "cuda":
        return torch.bfloat16 if torch.cuda.is_bf16_supported(including_emulation=False) else torch.float32
    probes = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
    fast = device.type == "cpu" and any(getattr(torch.cpu, probe, lambda: False)() for probe in probes)
    return torch.bfloat16 if fast else torch.float32
