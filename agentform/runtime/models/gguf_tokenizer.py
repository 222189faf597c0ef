"""A Hugging Face tokenizer from the vocabulary and merges that a GGUF file holds.

transformers' own conversion leaves out the pre-tokenizer that splits digits, so that runs of spaces before
digits are cut into tokens that the model did not see in training. The GGUF names its pre-tokenizer; it is
built here.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentform.errors import WeightsCorrupt
from agentform.runtime.models.extras import torch_extra

if TYPE_CHECKING:
    from gguf import GGUFReader
    from tokenizers import Tokenizer

__all__ = ["build_tokenizer", "write_tokenizer"]

_CONTROL = 3
"""GGUF token type of a control token."""


def write_tokenizer(reader: GGUFReader, folder: Path) -> None:
    """Write tokenizer.json and tokenizer_config.json (with the chat template, unchanged) into `folder`.

    Raises:
        WeightsCorrupt: weights do not have the digest or the files that they should have.
        MissingDependency: an optional package is not installed.
    """
    build_tokenizer(reader).save(str(folder / "tokenizer.json"), pretty=False)
    config = json.dumps(_tokenizer_config(reader), indent=2, ensure_ascii=False) + "\n"
    (folder / "tokenizer_config.json").write_text(config, encoding="utf-8")


def build_tokenizer(reader: GGUFReader) -> Tokenizer:
    """The byte-level BPE tokenizer of the file.

    Raises:
        WeightsCorrupt: the file holds another kind of tokenizer.
    """
    with torch_extra():
        from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    kind = (_field(reader, "tokenizer.ggml.model"), _field(reader, "tokenizer.ggml.pre"))
    if kind != ("gpt2", "smollm"):
        raise WeightsCorrupt(f"the GGUF holds a tokenizer of kind {kind}, which the converter does not know")
    tokens: list[str] = _field(reader, "tokenizer.ggml.tokens")
    types: list[int] = _field(reader, "tokenizer.ggml.token_type")
    merges = [_pair(merge) for merge in _field(reader, "tokenizer.ggml.merges")]
    tokenizer = Tokenizer(models.BPE(vocab={token: i for i, token in enumerate(tokens)}, merges=merges))
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=True, use_regex=True)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), byte_level])
    tokenizer.decoder = decoders.ByteLevel()
    control = [token for token, kind in zip(tokens, types, strict=True) if kind == _CONTROL]
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in control])
    return tokenizer


def _tokenizer_config(reader: GGUFReader) -> dict[str, Any]:
    tokens: list[str] = _field(reader, "tokenizer.ggml.tokens")
    named = {"bos": "bos", "eos": "eos", "unk": "unknown", "pad": "padding"}
    special = {f"{key}_token": tokens[_field(reader, f"tokenizer.ggml.{name}_token_id")] for key, name in named.items()}
    return {
        **special,
        "add_prefix_space": False,
        "chat_template": _field(reader, "tokenizer.chat_template"),
        "clean_up_tokenization_spaces": False,
        "model_max_length": _field(reader, "llama.context_length"),
        "tokenizer_class": "PreTrainedTokenizerFast",
    }


def _field(reader: GGUFReader, name: str) -> Any:
    field = reader.get_field(name)
    if field is None:
        raise WeightsCorrupt(f"the GGUF has no field {name}")
    return field.contents()


def _pair(merge: str) -> tuple[str, str]:
    left, right = merge.split(" ")
    return left, right
