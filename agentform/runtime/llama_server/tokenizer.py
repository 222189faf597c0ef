"""The tokenizer of a model that llama.cpp's server has: the vocabulary is here, text is cut by the server."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from agentform._util.lru import BoundedDict
from agentform.errors import InvalidRequest
from agentform.runtime.http.failures import understood
from agentform.runtime.http.transport import Transport
from agentform.runtime.llama_server.served import LLAMA_CPP, LlamaServed
from agentform.runtime.llama_server.vocabulary import ServedVocabulary
from agentform.runtime.tokenizer.chat_template import ChatTemplate
from agentform.runtime.tokenizer.llama_text import LlamaMark, LlamaTextTokenizer

if TYPE_CHECKING:
    from agentform.grammar.vocabulary import ReadTokenizer

__all__ = ["LlamaServerTokenizer"]

_KNOWN_CHARACTERS = 1 << 22
"""Of texts whose ids are kept, so that the server is asked once."""


class LlamaServerTokenizer(LlamaTextTokenizer):
    """Implements `agentform.runtime.engine.Tokenizer`; safe to use from several threads.

    A text that was not asked for before takes a request, and whoever asks waits for it.
    """

    def __init__(self, transport: Transport, served: LlamaServed, vocabulary: ServedVocabulary) -> None:
        self.folder = Path()
        self._transport = transport
        self._vocabulary = vocabulary
        self._identity = served.identity
        self._template = ChatTemplate(served.templates, served.named_tokens)
        self._ends = vocabulary.ends
        self._lock = threading.Lock()
        self._texts: BoundedDict[tuple[str, bool], tuple[int, ...]] = BoundedDict(
            _KNOWN_CHARACTERS, weight=lambda key, _: len(key[0])
        )
        self._set_marks(self._marks())

    @property
    def vocabulary_size(self) -> int:
        """Number of token ids."""
        return len(self._vocabulary.pieces)

    @property
    def tokenizer_json(self) -> str:
        """What tells this vocabulary from others."""
        joined = hashlib.sha256(b"\0".join(self._token_bytes)).hexdigest()
        return f"llama.cpp's server {self._identity} {joined}"

    def for_grammars(self) -> str | ReadTokenizer:
        """The vocabulary for `Vocabulary`, which cuts text as if it did not begin a text."""
        from agentform.grammar.vocabulary import ReadTokenizer

        return ReadTokenizer(
            token_bytes=self._token_bytes,
            special_ids=[i for i, piece in enumerate(self._token_bytes) if not piece or i in self.control_ids],
            encode=self._encode_inside,
            json=lambda: self.tokenizer_json,
        )

    @property
    def _token_bytes(self) -> tuple[bytes, ...]:  # type: ignore[override]
        return self._vocabulary.pieces

    @property
    def _encodes_apart(self) -> bool:  # type: ignore[override]
        """A prompt is one request, whatever control tokens it holds."""
        return False

    def _native(self, text: str, *, parse: bool) -> tuple[int, ...]:
        with self._lock:
            known = self._texts.use((text, parse))
        if known is not None:
            return known
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise InvalidRequest(f"text that cannot be encoded as UTF-8: {text[:40]!a}") from error
        body = {"content": text, "add_special": False, "parse_special": parse}
        with understood(self._transport.where, LLAMA_CPP):
            ids = tuple(map(int, self._transport.ask_again_now("POST", "/tokenize", body)["tokens"]))
        with self._lock:
            self._texts[text, parse] = ids
        return ids

    def _marks(self) -> dict[int, LlamaMark]:
        """Control tokens, and the tags that the template writes and the tokenizer never cuts."""
        spelt: Mapping[int, str] = self._vocabulary.control
        found = {i: _mark(text, special=True) for i, text in spelt.items()}
        source = self._template.source
        for token, piece in enumerate(self._vocabulary.pieces):
            if token in found or len(piece) < 3 or piece[:1].isalnum() or piece[-1:].isalnum():
                continue
            text = piece.decode(errors="replace")
            if text in source and _is_tag(text) and self._native(f"x{text}x", parse=False).count(token):
                found[token] = _mark(text, special=False)
        return found


def _is_tag(text: str) -> bool:
    """Whether it may be a token that a model's maker added, such as ``<think>`` or ``[INST]``."""
    return text[0] in "<[{|" and text[-1] in ">]}|" and any(map(str.isalpha, text))


def _mark(content: str, *, special: bool) -> LlamaMark:
    return LlamaMark(content=content, special=special, lstrip=False, rstrip=False, single_word=False)
