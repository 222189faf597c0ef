"""Tiny GGUF files of random weights, one for each way in which layers remember what they have read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np
from gguf import GGUFWriter

from tests.support.gguf_of_model import add_tiny_tokenizer, finish
from tests.support.tiny_tokenizer import STRUCTURAL, TinyVocabulary

__all__ = ["KINDS", "WINDOW", "write_sentence_piece_gguf", "write_tiny_gguf"]

WIDTH, HEADS, KV_HEADS, HEAD, INNER = 32, 4, 2, 8, 48
WINDOW = 24
"""Tokens that the sliding layers of the model with windows see."""
CONTEXT_TOKENS = 512
_SSM_HEADS, _STATE, _CONV = 4, 8, 4

Tensors = Iterator[tuple[str, tuple[int, ...]]]


def write_tiny_gguf(kind: str, path: Path, *, seed: int = 0) -> Path:
    """Write a model of one of `KINDS`."""
    architecture, fields, tensors = _MODELS[kind]
    writer = GGUFWriter(path, architecture)
    writer.add_context_length(CONTEXT_TOKENS)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    fields(writer)
    add_tiny_tokenizer(writer)
    random = np.random.default_rng(seed)
    for name, shape in tensors():
        writer.add_tensor(name, _values(name, shape, random))
    finish(writer)
    return path


def write_sentence_piece_gguf(path: Path) -> Path:
    """A model of attention whose vocabulary is SentencePiece's: a space before each text, and bytes for the rest."""
    words = [
        "\u2581",
        "\u2581the",
        "\u2581world",
        "hello",
        "\u2581hello",
        "true",
        *"abcdefghijklmnopqrstuvwxyz",
        "{",
        "}",
        ":",
        '"',
    ]
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *words]
    writer = GGUFWriter(path, "llama")
    writer.add_context_length(CONTEXT_TOKENS)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    _llama_fields(writer)
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores([0.0] * 259 + [-float(100 - 10 * len(word)) for word in words])
    writer.add_token_types([2, 3, 3, *[6] * 256, *[1] * len(words)])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_add_space_prefix(True)
    writer.add_chat_template(
        "{{ bos_token }}{% for m in messages %}[{{ m.role }}] {{ m.content }}{{ eos_token }}{% endfor %}"
    )
    random = np.random.default_rng(0)
    for name, shape in _llama():
        shape = (len(tokens), WIDTH) if name == "token_embd.weight" else shape
        writer.add_tensor(name, _values(name, shape, random))
    finish(writer)
    return path


def _values(name: str, shape: tuple[int, ...], random: np.random.Generator) -> np.ndarray:
    """Norms of one; decays that forget in some tens of tokens; the rest random."""
    if "norm" in name:
        return np.ones(shape, np.float32)
    if name.endswith("ssm_a"):
        return (-random.uniform(0.5, 4, shape)).astype(np.float32)
    if name.endswith("ssm_dt.bias"):
        return np.log(np.expm1(random.uniform(0.01, 0.1, shape))).astype(np.float32)
    return random.normal(0, 0.3, shape).astype(np.float32)


def _vocabulary() -> int:
    return len(TinyVocabulary.build().tokens) + len(STRUCTURAL)


def _frame() -> Tensors:
    yield "token_embd.weight", (_vocabulary(), WIDTH)
    yield "output_norm.weight", (WIDTH,)


def _attention(block: int, *, gated: bool = False) -> Tensors:
    yield f"blk.{block}.attn_q.weight", (HEADS * HEAD * (1 + gated), WIDTH)
    yield f"blk.{block}.attn_k.weight", (KV_HEADS * HEAD, WIDTH)
    yield f"blk.{block}.attn_v.weight", (KV_HEADS * HEAD, WIDTH)
    yield f"blk.{block}.attn_output.weight", (WIDTH, HEADS * HEAD)


def _head_norms(block: int) -> Tensors:
    yield f"blk.{block}.attn_q_norm.weight", (HEAD,)
    yield f"blk.{block}.attn_k_norm.weight", (HEAD,)


def _feed_forward(block: int) -> Tensors:
    yield f"blk.{block}.ffn_gate.weight", (INNER, WIDTH)
    yield f"blk.{block}.ffn_up.weight", (INNER, WIDTH)
    yield f"blk.{block}.ffn_down.weight", (WIDTH, INNER)


def _norms(block: int, *names: str) -> Tensors:
    for name in names:
        yield f"blk.{block}.{name}.weight", (WIDTH,)


def _heads(writer: GGUFWriter) -> None:
    writer.add_head_count_kv(KV_HEADS)
    writer.add_key_length(HEAD)
    writer.add_value_length(HEAD)
    writer.add_rope_freq_base(10000.0)


def _llama_fields(writer: GGUFWriter) -> None:
    writer.add_block_count(2)
    _heads(writer)
    writer.add_rope_dimension_count(HEAD)


def _llama() -> Tensors:
    yield from _frame()
    for block in range(2):
        yield from _norms(block, "attn_norm", "ffn_norm")
        yield from _attention(block)
        yield from _feed_forward(block)


def _gemma3_fields(writer: GGUFWriter) -> None:
    writer.add_block_count(6)
    _heads(writer)
    writer.add_sliding_window(WINDOW)


def _gemma3() -> Tensors:
    """Five layers with a window, and one without."""
    yield from _frame()
    for block in range(6):
        yield from _norms(block, "attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm")
        yield from _attention(block)
        yield from _head_norms(block)
        yield from _feed_forward(block)


def _ssm_fields(writer: GGUFWriter, *, inner: int, groups: int) -> None:
    writer.add_ssm_conv_kernel(_CONV)
    writer.add_ssm_inner_size(inner)
    writer.add_ssm_state_size(_STATE)
    writer.add_ssm_time_step_rank(_SSM_HEADS)
    writer.add_ssm_group_count(groups)


def _mamba2_fields(writer: GGUFWriter) -> None:
    writer.add_block_count(2)
    _ssm_fields(writer, inner=2 * WIDTH, groups=1)


def _mamba2() -> Tensors:
    yield from _frame()
    inner, convolved = 2 * WIDTH, 2 * WIDTH + 2 * _STATE
    for block in range(2):
        yield from _norms(block, "attn_norm")
        yield f"blk.{block}.ssm_in.weight", (inner + convolved + _SSM_HEADS, WIDTH)
        yield f"blk.{block}.ssm_conv1d.weight", (convolved, _CONV)
        yield f"blk.{block}.ssm_conv1d.bias", (convolved,)
        yield f"blk.{block}.ssm_dt.bias", (_SSM_HEADS,)
        yield f"blk.{block}.ssm_a", (_SSM_HEADS, 1)
        yield f"blk.{block}.ssm_d", (_SSM_HEADS, 1)
        yield f"blk.{block}.ssm_norm.weight", (1, inner)
        yield f"blk.{block}.ssm_out.weight", (WIDTH, inner)


def _qwen35_fields(writer: GGUFWriter) -> None:
    writer.add_block_count(4)
    _heads(writer)
    writer.add_rope_dimension_count(HEAD)
    writer.add_rope_dimension_sections([2, 1, 1, 0])
    writer.add_uint32("qwen35.full_attention_interval", 4)
    _ssm_fields(writer, inner=_SSM_HEADS * _STATE, groups=2)


def _qwen35() -> Tensors:
    """Three layers of gated delta, and one of attention."""
    yield from _frame()
    keys, values = 2 * _STATE, _SSM_HEADS * _STATE
    for block in range(4):
        yield from _norms(block, "attn_norm", "post_attention_norm")
        if block == 3:
            yield from _attention(block, gated=True)
            yield from _head_norms(block)
        else:
            yield f"blk.{block}.attn_qkv.weight", (2 * keys + values, WIDTH)
            yield f"blk.{block}.attn_gate.weight", (values, WIDTH)
            yield f"blk.{block}.ssm_conv1d.weight", (2 * keys + values, _CONV)
            yield f"blk.{block}.ssm_dt.bias", (_SSM_HEADS,)
            yield f"blk.{block}.ssm_a", (_SSM_HEADS,)
            yield f"blk.{block}.ssm_beta.weight", (_SSM_HEADS, WIDTH)
            yield f"blk.{block}.ssm_alpha.weight", (_SSM_HEADS, WIDTH)
            yield f"blk.{block}.ssm_norm.weight", (_STATE,)
            yield f"blk.{block}.ssm_out.weight", (WIDTH, values)
        yield from _feed_forward(block)


def _lfm2_fields(writer: GGUFWriter) -> None:
    writer.add_block_count(3)
    writer.add_head_count_kv([0, KV_HEADS, 0])
    writer.add_rope_freq_base(10000.0)
    writer.add_shortconv_l_cache(_CONV)


def _lfm2() -> Tensors:
    """Two layers of short convolutions around one of attention."""
    yield "token_embd.weight", (_vocabulary(), WIDTH)
    yield "token_embd_norm.weight", (WIDTH,)
    for block in range(3):
        yield from _norms(block, "attn_norm", "ffn_norm")
        if block == 1:
            yield from _attention(block)
            yield from _head_norms(block)
        else:
            yield f"blk.{block}.shortconv.conv.weight", (WIDTH, _CONV)
            yield f"blk.{block}.shortconv.in_proj.weight", (3 * WIDTH, WIDTH)
            yield f"blk.{block}.shortconv.out_proj.weight", (WIDTH, WIDTH)
        yield from _feed_forward(block)


_MODELS: Mapping[str, tuple[str, Callable[[GGUFWriter], None], Callable[[], Tensors]]] = {
    "attention": ("llama", _llama_fields, _llama),
    "window": ("gemma3", _gemma3_fields, _gemma3),
    "mamba2": ("mamba2", _mamba2_fields, _mamba2),
    "gated_delta": ("qwen35", _qwen35_fields, _qwen35),
    "short_convolution": ("lfm2", _lfm2_fields, _lfm2),
}
KINDS = tuple(_MODELS)
