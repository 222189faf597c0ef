"""The model's vocabulary as llguidance needs it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from llguidance import LLTokenizer, TokenizerWrapper

from agentform.errors import GrammarError

__all__ = ["ReadTokenizer", "Vocabulary"]


@dataclass(frozen=True, kw_only=True)
class ReadTokenizer:
    """A tokenizer in memory, which llguidance then need not read into a second one of its own."""

    token_bytes: Sequence[bytes]
    """By id; special tokens by their spelling, ids without a token empty."""
    special_ids: Collection[int]
    encode: Callable[[str], Sequence[int]]
    """Text that spells a control token is cut into others; the bytes of the ids are those of the text."""
    json: Callable[[], str]
    """The whole of it, for the digest."""


class Vocabulary:
    """Token ids and their bytes, shared by every grammar of one engine.

    Raises:
        GrammarError: llguidance cannot read the tokenizer.
    """

    def __init__(self, tokenizer: str | ReadTokenizer, *, size: int, eos_ids: Collection[int]) -> None:
        """`tokenizer`, if it is a text, is in the format of tokenizer.json.

        `size` is the number of logits the model gives, which may be more than the tokenizer's ids.
        """
        if not eos_ids:
            raise GrammarError("a vocabulary without an end-of-sequence token cannot carry a grammar")
        self._size = size
        self._eos_ids = tuple(sorted(eos_ids))
        self._json = (lambda: tokenizer) if isinstance(tokenizer, str) else tokenizer.json
        self._digest = ""
        native = tokenizer if isinstance(tokenizer, str) else TokenizerWrapper(_Wrapped(tokenizer, size, self._eos_ids))
        try:
            self._tokenizer = LLTokenizer(native, n_vocab=size, eos_token=list(self._eos_ids))
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
            said = f"{self._size} {self._eos_ids} {self._json()}"
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


class _Wrapped:
    """A tokenizer by the names that llguidance asks for."""

    bos_token_id = None

    def __init__(self, tokenizer: ReadTokenizer, size: int, eos_ids: Sequence[int]) -> None:
        self.eos_token_id = eos_ids[0]
        known = len(tokenizer.token_bytes)
        self.tokens = [*tokenizer.token_bytes[:size], *(f"<unused {i}>".encode() for i in range(known, size))]
        self.special_token_ids = [*(i for i in tokenizer.special_ids if i < size), *range(known, size)]
        self._encode = tokenizer.encode

    def __call__(self, text: str | bytes) -> list[int]:
        return list(self._encode(text if isinstance(text, str) else text.decode()))
