"""The bytes that each token id stands for."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tokenizers import Tokenizer

__all__ = ["is_byte_level", "token_bytes_table"]

_BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>")


def token_bytes_table(tokenizer: Tokenizer) -> tuple[bytes, ...]:
    """One entry per id up to the highest, empty for ids of no token; added tokens stand for their spelling."""
    added = {i: token.content.encode() for i, token in tokenizer.get_added_tokens_decoder().items()}
    vocabulary = tokenizer.get_vocab(with_added_tokens=True)
    table = [b""] * (max(vocabulary.values()) + 1)
    to_bytes = _byte_level() if is_byte_level(tokenizer) else _sentence_piece
    for text, i in vocabulary.items():
        table[i] = added[i] if i in added else to_bytes(text)
    return tuple(table)


def is_byte_level(tokenizer: Tokenizer) -> bool:
    """Whether each character of a token's name is a byte."""
    return "ByteLevel" in repr(tokenizer.decoder)


def _byte_level() -> Callable[[str], bytes]:
    byte_of = _ByteOf(_bytes_of_characters()).__getitem__
    return lambda text: b"".join(map(byte_of, text))


class _ByteOf(dict[str, bytes]):
    """What each character stands for; others stand for themselves. A lookup is all that a token's character costs."""

    def __missing__(self, character: str) -> bytes:
        return character.encode()


def _sentence_piece(text: str) -> bytes:
    if match := _BYTE_TOKEN.fullmatch(text):
        return bytes((int(match[1], 16),))
    return text.replace("▁", " ").encode()


def _bytes_of_characters() -> dict[str, bytes]:
    """Byte-level BPE writes printable Latin-1 bytes as themselves and the others from U+0100 on, in order."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = [byte for byte in range(256) if byte not in printable]
    characters = {chr(b): b for b in printable} | {chr(0x100 + i): b for i, b in enumerate(others)}
    return {character: bytes((byte,)) for character, byte in characters.items()}
