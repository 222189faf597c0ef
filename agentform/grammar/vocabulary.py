"""The model's vocabulary as llguidance needs it."""

from __future__ import annotations

import hashlib
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
        self._eos_ids = tuple(sorted(eos_ids))
        self._tokenizer_json = tokenizer_json
        self._digest = ""
        try:
            self._tokenizer = LLTokenizer(tokenizer_json, n_vocab=size, eos_token=list(self._eos_ids))
        except Exception as error:
            raise GrammarError(f"llguidance cannot read this tokenizer: {error}") from error

    @property
    def size(self) -> int:
        """Number of ids that a mask covers."""
        return self._size

    @property
    def eos_ids(self) -> tuple[int, ...]:
        """Ids that end a sequence, ascending."""
        return self._eos_ids

    @property
    def digest(self) -> str:
        """SHA-256 over all that a compiled grammar depends on, in hexadecimal."""
        if not self._digest:
            said = f"{self._size} {self._eos_ids} {self._tokenizer_json}"
            self._digest = hashlib.sha256(said.encode()).hexdigest()
        return self._digest

    def token_bytes(self, token_id: int) -> bytes:
        """The bytes that a token writes; empty for special tokens and ids without a token."""
        if self._tokenizer.is_special_token(token_id):
            return b""
        return self._tokenizer.decode_bytes([token_id])

    @property
    def native(self) -> LLTokenizer:
        """llguidance's own object."""
        return self._tokenizer

    def tokenize(self, text: bytes) -> list[int]:
        """Ids of `text`, special tokens never among them."""
        return self._tokenizer.tokenize_bytes(text)
