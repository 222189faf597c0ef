"""An adapter of peft's as the GGUF file that llama.cpp reads, for architectures whose layers are known here.

llama.cpp takes ``name.lora_a`` `[rank, in]` and ``name.lora_b`` `[out, rank]` beside the model's own ``name``. In
files of the architecture "llama" the rows of queries and keys lie in another order than in transformers: pairs that
are rotated together side by side.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from agentform._util.files import replacing
from agentform.errors import WeightsCorrupt
from agentform.runtime.models.adapter_file import GGUF_NAME

__all__ = ["ARCHITECTURES", "export_gguf"]

ARCHITECTURES: Mapping[str, str] = {"llama": "llama", "mistral": "llama", "qwen2": "qwen2", "qwen3": "qwen3"}
"""llama.cpp's architecture by `model_type` of transformers, where layers have the same parts."""
_IN_BLOCK = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
_PREFIX = "base_model.model.model.layers."


def export_gguf(folder: Path, config: Any) -> str:
    """Write adapter.gguf from peft's files in the same folder; returns why not, or nothing.

    `config` is transformers' configuration of the model.

    Raises:
        WeightsCorrupt: the adapter changes what is no part of such a layer.
    """
    from gguf import GGUFWriter
    from safetensors.numpy import load_file

    architecture = ARCHITECTURES.get(config.model_type)
    if architecture is None:
        return f"models of the type {config.model_type!r} are not among those whose layers are known for llama.cpp"
    settings = json.loads((folder / "adapter_config.json").read_text(encoding="utf-8"))
    tensors = load_file(folder / "adapter_model.safetensors")
    with replacing(folder / GGUF_NAME) as path:
        writer = GGUFWriter(path, architecture)
        writer.add_string("general.type", "adapter")
        writer.add_string("adapter.type", "lora")
        writer.add_float32("adapter.lora.alpha", float(settings["lora_alpha"]))
        for name, values in tensors.items():
            renamed, rows = _named(name, values.astype(np.float32), config if architecture == "llama" else None)
            writer.add_tensor(renamed, np.ascontiguousarray(rows))
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
    return ""


def _named(name: str, values: np.ndarray, rotated: Any) -> tuple[str, np.ndarray]:
    block, _, rest = name.removeprefix(_PREFIX).partition(".")
    module, _, side = rest.removesuffix(".weight").rpartition(".")
    if not name.startswith(_PREFIX) or module not in _IN_BLOCK or side not in ("lora_A", "lora_B"):
        raise WeightsCorrupt(f"the adapter changes {name}, which llama.cpp has no place for")
    part = _IN_BLOCK[module]
    heads = {"attn_q": "num_attention_heads", "attn_k": "num_key_value_heads"}.get(part)
    if rotated is not None and heads is not None and side == "lora_B":
        values = _halves_to_interleaved(values, getattr(rotated, heads))
    return f"blk.{block}.{part}.weight.{side.lower()}", values


def _halves_to_interleaved(rows: np.ndarray, num_heads: int) -> np.ndarray:
    halves = rows.reshape(num_heads, 2, -1, rows.shape[1])
    return halves.swapaxes(1, 2).reshape(rows.shape)
