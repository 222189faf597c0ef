"""The bytes that each token id stands for."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tokenizers import Tokenizer

__all__ = ["token_bytes_table"]

_BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>")


def token_bytes_table(tokenizer: Tokenizer, *, size: int) -> tuple[bytes, ...]:
    """One entry per id below `size`, empty for ids of no token; added tokens stand for their spelling."""
    added = {i: token.content.encode() for i, token in tokenizer.get_added_tokens_decoder().items()}
    table = [b""] * size
    to_bytes = _byte_level if "ByteLevel" in repr(tokenizer.decoder) else _sentence_piece
    byte_of = _bytes_of_characters()
    for text, i in tokenizer.get_vocab(with_added_tokens=True).items():
        table[i] = added[i] if i in added else to_bytes(text, byte_of)
    return tuple(table)


def _byte_level(text: str, byte_of: dict[str, int]) -> bytes:
    return b"".join(bytes((byte_of[c],)) if c in byte_of else c.encode() for c in text)


def _sentence_piece(text: str, _: dict[str, int]) -> bytes:
    if match := _BYTE_TOKEN.fullmatch(text):
        return bytes((int(match[1], 16),))
    return text.replace("▁", " ").encode()


def _bytes_of_characters() -> dict[str, int]:
    """Byte-level BPE writes printable Latin-1 bytes as themselves and the others from U+0100 on, in order."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(b): b for b in printable} | {chr(0x100 + i): b for i, b in enumerate(others)}
