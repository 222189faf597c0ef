"""Caches that are kept apart: the first token of a salted sequence is another than the same token without a salt.

Whatever compares sequences from their beginning (tree, slots, tiers, queue) then never finds one of another salt, and
need not know of salts. Only what computes takes the salt off again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

__all__ = ["TOKEN_BITS", "join_salt", "salted", "split_salt"]

TOKEN_BITS = 32
"""Bits of a token id; the salt stands above them."""
_SALT_BYTES = 12


def salted(ids: Sequence[int], salt: str) -> tuple[int, ...]:
    """`ids` as the cache knows them under `salt`; the same ids without one."""
    if not salt or not ids:
        return tuple(ids)
    number = int.from_bytes(hashlib.sha256(salt.encode()).digest()[:_SALT_BYTES])
    return join_salt(ids, number)


def join_salt(ids: Sequence[int], number: int) -> tuple[int, ...]:
    """`ids`, which are not salted, with the salt that has this number."""
    return (ids[0] | number << TOKEN_BITS, *ids[1:]) if ids else ()


def split_salt(ids: Sequence[int]) -> tuple[int, tuple[int, ...]]:
    """The number of the salt, 0 for none, and the ids themselves."""
    if not ids:
        return 0, ()
    return ids[0] >> TOKEN_BITS, (ids[0] & ((1 << TOKEN_BITS) - 1), *ids[1:])
