"""Follows one generation through its grammar."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from llguidance import LLMatcher

from agentform.errors import GrammarError
from agentform.grammar.vocabulary import Vocabulary

__all__ = ["Forced", "Matcher"]


@dataclass(frozen=True, kw_only=True)
class Forced:
    """What the grammar leaves no choice about from here."""

    ends: bool
    """The forced text is all that remains."""
    remainder: bytes = b""
    """The forced text when it ends the grammar."""
    token_ids: tuple[int, ...] = ()
    """Otherwise the tokens that any continuation starts with, tokenised as the model would."""


class Matcher:
    """A grammar's state after some tokens. Not thread-safe; every method may raise GrammarError."""

    def __init__(self, native: LLMatcher, vocabulary: Vocabulary) -> None:
        self._native = native
        self._vocabulary = vocabulary

    def allowed(self) -> npt.NDArray[np.bool_]:
        """Which ids may come next, shape [vocabulary size]."""
        bits = np.frombuffer(self._native.compute_bitmask(), dtype=np.uint8)
        self._raise_on_error()
        return np.unpackbits(bits, bitorder="little")[: self._vocabulary.size].view(np.bool_)

    def accept(self, *token_ids: int) -> None:
        """Advance by tokens that the grammar allows."""
        if not self._native.consume_tokens(list(token_ids)):
            raise GrammarError(f"the grammar does not allow token {token_ids}: {self._native.get_error()}")

    def num_allowed(self, token_ids: Sequence[int]) -> int:
        """How many of `token_ids`, from the first, could be accepted one after the other; does not advance."""
        return self._native.validate_tokens(list(token_ids))

    def is_complete(self) -> bool:
        """Whether the text so far matches; more may still be possible."""
        return self._native.is_accepting()

    def forced(self) -> Forced:
        """What is forced now; does not advance."""
        if self._native.is_stopped():
            self._raise_on_error()
            return Forced(ends=True)
        text = self._native.compute_ff_bytes()
        if not text:
            return Forced(ends=False)
        if self._ends_with(text):
            return Forced(ends=True, remainder=text)
        return Forced(ends=False, token_ids=tuple(self._native.compute_ff_tokens()))

    def _ends_with(self, text: bytes) -> bool:
        ahead = self._native.deep_copy()
        ids = self._vocabulary.tokenize(text)
        if ahead.try_consume_tokens(ids) < len(ids) or ahead.is_error():
            return False
        return ahead.is_stopped() and ahead.is_accepting()

    def _raise_on_error(self) -> None:
        if self._native.is_error():
            raise GrammarError(f"the grammar's matcher stopped: {self._native.get_error()}")
