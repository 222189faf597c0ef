"""The model's vocabulary as llguidance needs it."""

from __future__ import annotations

from collections.abc import Collection

from llguidance import LLTokenizer

from agentform.errors import GrammarError

__all__ = ["Vocabulary"]


class Vocabulary:
    """Token ids and their bytes, shared by every grammar of one engine.

    Raises GrammarError if llguidance cannot read the tokenizer.
    """

    def __init__(self, tokenizer_json: str, *, size: int, eos_ids: Collection[int]) -> None:
        """`size` is the number of logits the model gives, which may be more than the tokenizer's ids."""
        if not eos_ids:
            raise GrammarError("a vocabulary without an end-of-sequence token cannot carry a grammar")
        self._size = size
        try:
            self._tokenizer = LLTokenizer(tokenizer_json, n_vocab=size, eos_token=sorted(eos_ids))
        except Exception as error:
            raise GrammarError(f"llguidance cannot read this tokenizer: {error}") from error

    @property
    def size(self) -> int:
        """Number of ids that a mask covers."""
        return self._size

    @property
    def native(self) -> LLTokenizer:
        """llguidance's own object."""
        return self._tokenizer

    def tokenize(self, text: bytes) -> list[int]:
        """Ids of `text`, special tokens never among them."""
        return self._tokenizer.tokenize_bytes(text)
