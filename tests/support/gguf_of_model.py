"""A tiny Llama of transformers as a GGUF file, with the tiny tokenizer, so that both can be asked the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from gguf import GGUFWriter
from transformers import PreTrainedModel

from tests.support.tiny_gguf import gguf_rows
from tests.support.tiny_tokenizer import CHATML_WITH_TOOLS, SPECIAL, STRUCTURAL, TinyVocabulary

__all__ = ["add_tiny_tokenizer", "finish", "write_gguf_of"]

_TOP_LEVEL = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
_IN_BLOCK = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
_CONTROL, _USER_DEFINED, _NORMAL = 3, 4, 1


def write_gguf_of(model: PreTrainedModel, path: Path) -> Path:
    """Write a Llama's weights, float32, as llama.cpp names and orders them."""
    config = model.config
    writer = GGUFWriter(path, "llama")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_rope_dimension_count(config.hidden_size // config.num_attention_heads)
    writer.add_vocab_size(config.vocab_size)
    add_tiny_tokenizer(writer)
    heads = {"attn_q": config.num_attention_heads, "attn_k": config.num_key_value_heads}
    for name, weight in model.float().state_dict().items():
        renamed = _name(name.removesuffix(".weight"))
        values = weight.numpy()
        num_heads = heads.get(renamed.rpartition(".")[2])
        rows = gguf_rows(values, num_heads) if num_heads else values
        writer.add_tensor(f"{renamed}.weight", np.ascontiguousarray(rows, dtype=np.float32))
    finish(writer)
    return path


def add_tiny_tokenizer(writer: GGUFWriter, *, template: str | None = CHATML_WITH_TOOLS) -> None:
    """The tiny vocabulary, its structural tokens last; ids 0 to 2 are `SPECIAL`."""
    vocabulary = TinyVocabulary.build()
    tokens = [*vocabulary.tokens, *STRUCTURAL]
    kinds = {**dict.fromkeys(SPECIAL, _CONTROL), **dict.fromkeys(STRUCTURAL, _USER_DEFINED)}
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types([kinds.get(token, _NORMAL) for token in tokens])
    writer.add_token_merges([" ".join(merge) for merge in vocabulary.merges])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_pad_token_id(2)
    writer.add_add_bos_token(False)
    if template is not None:
        writer.add_chat_template(template)


def finish(writer: GGUFWriter) -> None:
    """Write header, fields and tensors."""
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _name(name: str) -> str:
    if name in _TOP_LEVEL:
        return _TOP_LEVEL[name]
    _, _, block, part = name.split(".", 3)
    return f"blk.{block}.{_IN_BLOCK[part]}"
