"""Convert a Llama-shaped GGUF file into a Hugging Face model folder, once.

The file is read directly rather than through transformers: that is faster, gives the same weights, and does
not depend on which transformers release keeps quantised weights packed.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentform.errors import WeightsCorrupt
from agentform.runtime.models.checked import readable
from agentform.runtime.models.extras import torch_extra
from agentform.runtime.models.gguf_header import check_gguf
from agentform.runtime.models.gguf_tokenizer import write_tokenizer
from agentform.runtime.models.int4_file import split_q4_1, write_four_bit

if TYPE_CHECKING:
    import numpy as np
    import torch
    from gguf import GGUFReader

__all__ = ["add_four_bit", "convert_gguf"]

_TOP_LEVEL = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
}
_IN_BLOCK = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def convert_gguf(gguf: Path, folder: Path) -> None:
    """Write model.safetensors (bfloat16), its 4-bit weights as they are, the two configurations and the tokenizer.

    Raises:
        WeightsCorrupt: the file is not a Llama model.
        MissingDependency: an optional package is not installed.
    """
    with torch_extra():
        from safetensors.torch import save_file
    with readable(gguf):
        reader = _open(gguf)
        config = _config(reader)
        save_file(_tensors(reader), folder / "model.safetensors", metadata={"format": "pt"})
        write_four_bit(_four_bit(reader), folder)
        _write_json(folder / "config.json", config)
        _write_json(folder / "generation_config.json", _token_ids(reader))
        write_tokenizer(reader, folder)


def add_four_bit(gguf: Path, folder: Path) -> None:
    """Write the 4-bit weights alone, for a folder that was converted before they were kept.

    Raises:
        WeightsCorrupt: weights do not have the digest or the files that they should have.
        MissingDependency: an optional package is not installed.
        OSError: the file cannot be read or written.
    """
    write_four_bit(_four_bit(_open(gguf)), folder)


def _open(gguf: Path) -> GGUFReader:
    with torch_extra():
        from gguf import GGUFReader
    check_gguf(gguf)
    try:
        reader = GGUFReader(gguf)
    except Exception as error:  # it believes all counts and offsets, and fails in as many ways
        raise WeightsCorrupt(f"{gguf} is not a GGUF file that can be read: {type(error).__name__}: {error}") from error
    if (architecture := _value(reader, "general.architecture")) != "llama":
        raise WeightsCorrupt(f"{gguf} holds a {architecture!r} model; the converter knows 'llama'")
    return reader


def _tensors(reader: GGUFReader) -> dict[str, torch.Tensor]:
    import torch
    from gguf.quants import dequantize

    num_heads = _rotated_heads(reader)
    tensors: dict[str, torch.Tensor] = {}
    for tensor in reader.tensors:
        values = dequantize(tensor.data, tensor.tensor_type)
        if heads := num_heads.get(tensor.name.split(".")[-2]):
            values = _interleaved_to_halves(values, heads)
        tensors[_hugging_face_name(tensor.name)] = torch.from_numpy(values.copy()).to(torch.bfloat16)
    return tensors


def _four_bit(reader: GGUFReader) -> dict[str, dict[str, np.ndarray]]:
    """Parts of the Q4_1 weights by module name, rows in Hugging Face's order."""
    from gguf import GGMLQuantizationType

    num_heads = _rotated_heads(reader)
    weights: dict[str, dict[str, np.ndarray]] = {}
    for tensor in reader.tensors:
        if tensor.tensor_type != GGMLQuantizationType.Q4_1:
            continue
        parts = split_q4_1(tensor.data)
        if heads := num_heads.get(tensor.name.split(".")[-2]):
            parts = {name: _interleaved_to_halves(part, heads).copy() for name, part in parts.items()}
        weights[_hugging_face_name(tensor.name).removesuffix(".weight")] = parts
    return weights


def _rotated_heads(reader: GGUFReader) -> dict[str, int]:
    """How many heads the rows of a projection are that the rotary embedding turns."""
    return {
        "attn_q": int(_value(reader, "llama.attention.head_count")),
        "attn_k": int(_value(reader, "llama.attention.head_count_kv")),
    }


def _interleaved_to_halves(weight: np.ndarray, num_heads: int) -> np.ndarray:
    """Rows of each head from GGUF's rotary order (pairs side by side) to Hugging Face's (half after half)."""
    pairs = weight.reshape(num_heads, -1, 2, weight.shape[1])
    return pairs.swapaxes(1, 2).reshape(weight.shape)


def _hugging_face_name(name: str) -> str:
    if match := re.fullmatch(r"blk\.(\d+)\.(\w+)\.weight", name):
        block, part = match.groups()
        if part in _IN_BLOCK:
            return f"model.layers.{block}.{_IN_BLOCK[part]}.weight"
    elif (part := name.removesuffix(".weight")) in _TOP_LEVEL:
        return f"{_TOP_LEVEL[part]}.weight"
    raise WeightsCorrupt(f"the GGUF holds a tensor {name!r} that the converter does not know")


def _config(reader: GGUFReader) -> dict[str, Any]:
    heads = int(_value(reader, "llama.attention.head_count"))
    width = int(_value(reader, "llama.embedding_length"))
    # float32 in the file: the shortest decimal that gives the same float32 is what the authors wrote.
    epsilon = float(f"{_value(reader, 'llama.attention.layer_norm_rms_epsilon'):.7g}")
    rope = {"rope_type": "default", "rope_theta": float(_value(reader, "llama.rope.freq_base"))}
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "attention_bias": False,
        "dtype": "bfloat16",
        "head_dim": width // heads,
        "hidden_act": "silu",
        "hidden_size": width,
        "intermediate_size": int(_value(reader, "llama.feed_forward_length")),
        "max_position_embeddings": int(_value(reader, "llama.context_length")),
        "num_attention_heads": heads,
        "num_hidden_layers": int(_value(reader, "llama.block_count")),
        "num_key_value_heads": int(_value(reader, "llama.attention.head_count_kv")),
        "rms_norm_eps": epsilon,
        "rope_parameters": rope,
        "tie_word_embeddings": all(tensor.name != "output.weight" for tensor in reader.tensors),
        "vocab_size": int(_value(reader, "llama.vocab_size")),
        **_token_ids(reader),
    }


def _token_ids(reader: GGUFReader) -> dict[str, Any]:
    named = {"bos": "bos", "eos": "eos", "pad": "padding"}
    return {f"{key}_token_id": int(_value(reader, f"tokenizer.ggml.{name}_token_id")) for key, name in named.items()}


def _value(reader: GGUFReader, name: str) -> Any:
    field = reader.get_field(name)
    if field is None:
        raise WeightsCorrupt(f"the GGUF has no field {name}")
    return field.contents()


def _write_json(path: Path, data: dict[str, Any]) -> None:
    path.write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")
