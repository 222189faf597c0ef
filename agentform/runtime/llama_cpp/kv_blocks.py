"""Cells of a sequence as bytes: blocks of a few hundred tokens, so that a beginning can be restored alone.

::

    tokens a block 4 | blocks 4 | size of each 8 | blocks, each a state of llama.cpp | zeros to a multiple of the tokens

A block spans no more than the window of a model that has one: of longer sequences llama.cpp writes what the last token
sees, and no more.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator

from agentform.errors import EngineError
from agentform.runtime.llama_cpp.context import LlamaContext

__all__ = ["BLOCK_TOKENS", "export_blocks", "restore_blocks"]

BLOCK_TOKENS = 256
"""Tokens of a block, if no window is narrower."""


def block_tokens(window: int) -> int:
    """Tokens of a block, for a model whose layers attend to `window` tokens at least; 0 for all."""
    return max(1, min(BLOCK_TOKENS, window)) if window else BLOCK_TOKENS


def export_blocks(
    context: LlamaContext, copy_to: Callable[[int, int], None], scratch: int, num: int, *, window: int
) -> bytes:
    """`num` tokens as bytes; `copy_to` puts those from a place to another into `scratch`, an empty sequence."""
    blocks: list[bytes] = []
    for start, stop in _spans(num, block_tokens(window)):
        try:
            copy_to(start, stop)
            blocks.append(context.state_bytes(scratch))
        finally:
            context.drop(scratch)
    head = struct.pack(f"<II{len(blocks)}Q", block_tokens(window), len(blocks), *map(len, blocks))
    data = b"".join((head, *blocks))
    return data + bytes(-len(data) % num)


def restore_blocks(
    context: LlamaContext, data: bytes, copy_from: Callable[[int, int], None], scratch: int, start: int, stop: int
) -> None:
    """Restore tokens `start` to `stop` of what was exported; `copy_from` takes those from a place to another out of

    `scratch`, an empty sequence.

    Raises:
        EngineError: it was not exported from this model, or there are too few cells.
    """
    size, sizes, at = _head(data)
    if len(sizes) * size < stop:
        raise EngineError(f"{len(sizes)} blocks of {size} tokens do not hold {stop} tokens")
    for index, length in enumerate(sizes):
        first, last = max(start, index * size), min(stop, (index + 1) * size)
        if first < last:
            try:
                context.restore(scratch, data[at : at + length])
                copy_from(first, last)
            finally:
                context.drop(scratch)
        at += length


def _head(data: bytes) -> tuple[int, tuple[int, ...], int]:
    """Tokens of a block, bytes of each, and where the first begins."""
    try:
        size, count = struct.unpack_from("<II", data)
        return size, struct.unpack_from(f"<{count}Q", data, 8), 8 + 8 * count
    except struct.error as error:
        raise EngineError(f"{len(data)} bytes that are no blocks: {error}") from error


def _spans(num: int, size: int) -> Iterator[tuple[int, int]]:
    for start in range(0, num, size):
        yield start, min(start + size, num)
