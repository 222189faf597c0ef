"""Text to ids as llama.cpp makes them, wherever it runs: data never becomes a control token, nor begins a text.

::

    text ──▶ pieces between spelt control tokens ──▶ `_native` (control tokens are text) ──▶ ids
                     control tokens, by id ──────────────────────────────────────────▶
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from agentform.runtime.tokenizer.control_text import ControlText
from agentform.runtime.tokenizer.hf_tokenizer import HFTokenizer
from agentform.runtime.tokenizer.template_probe import turn_end

__all__ = ["LlamaMark", "LlamaTextTokenizer"]

_SENTINELS = ("\n", "\x01", ".")
"""What may stand before a text so that it is not a text's beginning; one that no token joins with what follows."""


@dataclass(frozen=True, kw_only=True)
class LlamaMark:
    """A control token, with the names that the `tokenizers` library gives its properties."""

    content: str
    special: bool
    lstrip: bool
    rstrip: bool
    single_word: bool


class LlamaTextTokenizer(HFTokenizer):
    """What llama.cpp's tokenizers share; ids of a text come from `_native`, bytes from `_token_bytes`."""

    _ends: frozenset[int]
    """Ids that llama.cpp ends a completion at."""
    _structural: tuple[str, ...]

    @abstractmethod
    def _native(self, text: str, *, parse: bool) -> tuple[int, ...]:
        """llama.cpp's own ids of a text, nothing added; `parse`: spelt control tokens are control.

        Raises:
            InvalidRequest: `text` is not valid Unicode.
        """

    def _set_marks(self, marks: Mapping[int, LlamaMark]) -> None:
        """Say which tokens are control, by id."""
        self.special_ids = frozenset(i for i, mark in marks.items() if mark.special)
        structural = [mark.content for mark in marks.values() if not mark.special]
        self._structural = tuple(sorted(structural, key=len, reverse=True))
        self._control_text = ControlText(
            special=[mark.content for mark in marks.values() if mark.special], structural=structural
        )
        self._control_tokens = {mark.content: (i, mark) for i, mark in marks.items()}  # type: ignore[assignment]
        self.control_ids = frozenset(marks)

    @cached_property
    def eos_ids(self) -> frozenset[int]:
        """Ids that end an assistant turn: those the file marks so, and what the template writes after an answer."""
        spelt = turn_end(self._template, self._control_tokens)
        named = self._control_tokens.get(spelt) if spelt else None
        return self._ends | ({named[0]} if named is not None else frozenset())

    def encode(self, text: str, *, control: bool = False) -> tuple[int, ...]:
        """Token ids of `text`, nothing added; spelt control tokens are data unless `control` is true.

        Raises:
            InvalidRequest: `text` is not valid Unicode.
        """
        if control:
            return self._native(text, parse=True)
        first, *rest = self._broken_up(text)
        return sum(map(self._encode_inside, rest), self._native(first, parse=False))

    def decode(self, ids: Sequence[int]) -> str:
        """The text of `ids`, special tokens spelt out; incomplete UTF-8 becomes U+FFFD."""
        return b"".join(map(self.token_bytes, ids)).decode(errors="replace")

    def _encode_inside(self, text: str) -> tuple[int, ...]:
        """Ids of text that stands after other text: without the space that some vocabularies put before a text."""
        ids = self._native(text, parse=False)
        if b"".join(map(self.token_bytes, ids)) == text.encode():
            return ids
        for sentinel in _SENTINELS:
            found = self._after(sentinel, text)
            if found is not None:
                return found
        return ids

    def _after(self, sentinel: str, text: str) -> tuple[int, ...] | None:
        """Ids of `text` after a sentinel; `None` where a token holds parts of both."""
        ids, whole = self._native(sentinel + text, parse=False), (sentinel + text).encode()
        left = sum(len(self.token_bytes(i)) for i in ids) - len(text.encode())
        for index, token in enumerate(ids):
            if left == 0:
                told = b"".join(map(self.token_bytes, ids[index:]))
                return ids[index:] if whole.endswith(told) and told == text.encode() else None
            left -= len(self.token_bytes(token))
        return None

    def _broken_up(self, text: str) -> list[str]:
        """Pieces of `text` that together are it, none of which spells a token that llama.cpp always reads."""
        pieces = [text]
        for mark in self._structural:
            parted: list[str] = []
            for piece in pieces:
                head, *tail = piece.split(mark)
                parted.append(head + (mark[:1] if tail else ""))
                parted += [
                    mark[1:] + each + (mark[:1] if index < len(tail) - 1 else "") for index, each in enumerate(tail)
                ]
            pieces = parted
        return pieces
