"""llguidance's masks in a logits processor of transformers' `generate`, by its own torch helpers."""

from __future__ import annotations

from typing import Any

import llguidance
import llguidance.hf
import llguidance.torch
import torch

from benchmarks.peers.drivers.masks import Masked, Processor, schema_text
from benchmarks.peers.drivers.prefix_cache import CachedModel

__all__ = ["make"]

_OPTIONS = {
    "whitespace_flexible": False,
    "item_separator": ", ",
    "key_separator": ": ",
    "coerce_one_of": True,
    "lenient": True,
}
"""Separators as guidance sets them: without spaces there are fewer tokens, of a kind the model has seldom seen."""


def make() -> Masked:
    """The driver."""
    return Masked(dict(_OPTIONS), _prepare)


def _prepare(model: CachedModel) -> Processor:
    tokenizer = llguidance.hf.from_tokenizer(model.tokenizer, n_vocab=model.model.config.vocab_size)
    grammars: dict[str, str] = {}

    def processor(schema: dict[str, Any]) -> Any:
        key = schema_text(schema)
        if key not in grammars:
            grammars[key] = llguidance.LLMatcher.grammar_from_json_schema(key, defaults=_OPTIONS)
        return _Mask(llguidance.LLMatcher(tokenizer, grammars[key]), tokenizer.vocab_size)

    return processor


class _Mask:
    """Called with all tokens so far; of one prompt, once."""

    def __init__(self, matcher: Any, vocabulary_size: int) -> None:
        self._matcher = matcher
        self._mask = llguidance.torch.allocate_token_bitmask(1, vocabulary_size)
        self._length: int | None = None

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        if self._length is not None:
            self._matcher.consume_token(int(input_ids[0, -1]))
        self._length = input_ids.shape[1]
        if error := self._matcher.get_error():
            raise RuntimeError(error)
        llguidance.torch.fill_next_token_bitmask(self._matcher, self._mask, 0)
        llguidance.torch.apply_token_bitmask_inplace(scores, self._mask)
        return scores
