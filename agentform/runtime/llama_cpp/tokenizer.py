"""The tokenizer that a GGUF file holds, as llama.cpp runs it, with the file's chat template.

::

    text ──▶ pieces between spelt control tokens ──▶ llama_tokenize (control tokens are text) ──▶ ids
                     control tokens, by id ──────────────────────────────────────────────────▶
"""

from __future__ import annotations

import ctypes
import hashlib
import threading
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

from agentform.errors import EngineError, InvalidRequest
from agentform.runtime.llama_cpp.model import LlamaModel
from agentform.runtime.tokenizer.chat_template import ChatTemplate
from agentform.runtime.tokenizer.llama_text import LlamaMark, LlamaTextTokenizer

if TYPE_CHECKING:
    from agentform.grammar.vocabulary import ReadTokenizer

__all__ = ["LlamaTokenizer"]

_UNKNOWN, _UNUSED, _CONTROL, _USER_DEFINED = 1 << 0, 1 << 1, 1 << 3, 1 << 4
_LSTRIP, _RSTRIP, _SINGLE_WORD = 1 << 7, 1 << 8, 1 << 9
_NONE = -1
_FIRST_PIECE_BYTES = 64


class LlamaTokenizer(LlamaTextTokenizer):
    """Implements `agentform.runtime.engine.Tokenizer`; safe to use from several threads.

    What a template renders and how data is kept from becoming control is `HFTokenizer`'s; ids come from llama.cpp.
    """

    def __init__(self, model: LlamaModel) -> None:
        """
        Raises:
            EngineError: the file holds no vocabulary.
        """
        self.folder = model.path.parent
        self._model = model
        self._reopened: LlamaModel | None = None
        self._mode = threading.Lock()  # guards the model's handle against `let_go`
        vocabulary, kind_of, ends = model.vocabulary, model.api.llama_vocab_get_attr, model.api.llama_vocab_is_eog
        self._size = model.api.llama_vocab_n_tokens(vocabulary)
        if not self._size or not model.api.llama_vocab_type(vocabulary):
            raise EngineError(f"{model.path} holds no vocabulary, so that no text can be given to the model")
        self._kinds = [kind_of(vocabulary, i) for i in range(self._size)]
        self._ends = frozenset(i for i in range(self._size) if ends(vocabulary, i))
        self._digest = model.digest
        self._template = _template(model, self._named_tokens())
        self._set_marks(self._marks())

    @property
    def vocabulary_size(self) -> int:
        """Number of token ids."""
        return self._size

    @property
    def tokenizer_json(self) -> str:
        """What tells this vocabulary from others."""
        joined = hashlib.sha256(b"\0".join(self._token_bytes)).hexdigest()
        return f"llama.cpp {self._digest} {joined}"

    def for_grammars(self) -> str | ReadTokenizer:
        """The vocabulary for `Vocabulary`, which cuts text as if it did not begin a text."""
        from agentform.grammar.vocabulary import ReadTokenizer

        kinds = enumerate(self._kinds)
        return ReadTokenizer(
            token_bytes=self._token_bytes,
            special_ids=[i for i, kind in kinds if kind & (_CONTROL | _UNKNOWN | _UNUSED) or i in self.special_ids],
            encode=self._encode_inside,
            json=lambda: self.tokenizer_json,
        )

    def let_go(self) -> None:
        """The model is about to be freed; what comes later is read from the file's vocabulary alone."""
        with self._mode:
            self._model_or_vocabulary = self._vocabulary_alone

    @cached_property
    def _token_bytes(self) -> tuple[bytes, ...]:
        with self._mode:
            model = self._model_or_vocabulary()
            vocabulary, piece = model.vocabulary, model.api.llama_token_to_piece
            buffer = ctypes.create_string_buffer(_FIRST_PIECE_BYTES)
            return tuple(_piece(piece, vocabulary, i, buffer) for i in range(self._size))

    def _model_or_vocabulary(self) -> LlamaModel:
        return self._model

    def _vocabulary_alone(self) -> LlamaModel:
        if self._reopened is None:
            self._reopened = LlamaModel(self._model.path, vocabulary_only=True)
        return self._reopened

    def _native(self, text: str, *, parse: bool) -> tuple[int, ...]:
        try:
            data = text.encode()
        except UnicodeEncodeError as error:
            raise InvalidRequest(f"text that cannot be encoded as UTF-8: {text[:40]!a}") from error
        with self._mode:
            model = self._model_or_vocabulary()
            room = len(data) + 8
            while True:
                ids = (ctypes.c_int32 * room)()
                num = model.api.llama_tokenize(model.vocabulary, data, len(data), ids, room, False, parse)
                if num >= 0:
                    return tuple(ids[:num])
                room = -num

    def _named_tokens(self) -> dict[str, str]:
        api, vocabulary = self._model.api, self._model.vocabulary
        ids = {"bos_token": api.llama_vocab_bos(vocabulary), "eos_token": api.llama_vocab_eos(vocabulary)}
        return {name: self._spelling(i) for name, i in ids.items() if i != _NONE}

    def _spelling(self, token_id: int) -> str:
        buffer = ctypes.create_string_buffer(_FIRST_PIECE_BYTES)
        piece = self._model.api.llama_token_to_piece
        return _piece(piece, self._model.vocabulary, token_id, buffer).decode(errors="replace")

    def _marks(self) -> dict[int, LlamaMark]:
        """Control tokens, and the file's own additions that the template writes."""
        found: dict[int, LlamaMark] = {}
        for i, kind in enumerate(self._kinds):
            if not kind & (_CONTROL | _USER_DEFINED):
                continue
            content = self._spelling(i)
            special = bool(kind & _CONTROL)
            if content and (special or (content.strip() and content in self._template.source)):
                found[i] = _mark(content, kind, special=special)
        return found


def _mark(content: str, kind: int, *, special: bool) -> LlamaMark:
    return LlamaMark(
        content=content,
        special=special,
        lstrip=bool(kind & _LSTRIP),
        rstrip=bool(kind & _RSTRIP),
        single_word=bool(kind & _SINGLE_WORD),
    )


def _template(model: LlamaModel, named: dict[str, str]) -> ChatTemplate:
    found = {"default": model.chat_template(), "tool_use": model.chat_template("tool_use")}
    return ChatTemplate({name: text for name, text in found.items() if text}, named)


def _piece(read: Callable[..., int], vocabulary: int, token_id: int, buffer: ctypes.Array[ctypes.c_char]) -> bytes:
    """The bytes of a token, special ones spelt out."""
    size = read(vocabulary, token_id, buffer, len(buffer), 0, True)
    if size < 0:
        buffer = ctypes.create_string_buffer(-size)
        size = read(vocabulary, token_id, buffer, len(buffer), 0, True)
    return buffer.raw[:size]
