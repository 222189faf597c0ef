"""xgrammar as a logits processor of transformers' `generate`, as its package ships it."""

from __future__ import annotations

from typing import Any

import xgrammar
from xgrammar.contrib.hf import LogitsProcessor

from benchmarks.peers.drivers.masks import Masked, Processor, schema_text
from benchmarks.peers.drivers.prefix_cache import CachedModel

__all__ = ["make"]


def make() -> Masked:
    """The driver."""
    return Masked({"any_whitespace": False, "compiler cache": True}, _prepare)


def _prepare(model: CachedModel) -> Processor:
    about = xgrammar.TokenizerInfo.from_huggingface(model.tokenizer, vocab_size=model.model.config.vocab_size)
    compiler = xgrammar.GrammarCompiler(about, max_threads=model.settings["threads"])

    def processor(schema: dict[str, Any]) -> Any:
        return LogitsProcessor(compiler.compile_json_schema(schema_text(schema), any_whitespace=False))

    return processor
