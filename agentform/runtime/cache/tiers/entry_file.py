"""One conversation on disk: token ids, their KV and the snapshot after them, in a file that is whole or refused.

::

    magic 8 | header length 4 | header (JSON) | token ids, int32 each | KV | snapshot | SHA-256 of all before, 32

A file is written beside its place, synced and renamed over it, so a reader sees all of it or none. Its name is a
digest of what it holds, so several processes that write the same entry write the same file.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import struct
from array import array
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from agentform._util.files import write_atomically
from agentform.errors import EngineError
from agentform.runtime.cache.salt import join_salt, split_salt

__all__ = ["PART_SUFFIX", "SUFFIX", "Entry", "Header", "name_of", "read_entry", "read_header", "write_entry"]

SUFFIX = ".agentform-kv"
PART_SUFFIX = ".agentform-part"
"""Of files that are being written, or that a process left when it was killed."""
_MAGIC = b"afcache1"
_DIGEST_BYTES = 32
_ID_BYTES = 4
_LARGEST_HEADER = 1 << 16


@dataclass(frozen=True, kw_only=True)
class Header:
    """What an entry is of; `guard` names model, codec and layout, and entries of another guard are not looked at."""

    guard: str
    num_tokens: int
    kv_bytes: int
    snapshot_bytes: int
    salt: int = 0
    """Number of the salt that the token ids are kept under; see `agentform.runtime.cache.salt`."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A sequence that can be resumed from."""

    guard: str
    ids: tuple[int, ...]
    kv: bytes
    snapshot: bytes


def name_of(guard: str, ids: tuple[int, ...]) -> str:
    """The file name of an entry."""
    salt, bare = split_salt(ids)
    return hashlib.sha256(guard.encode() + _packed(bare) + (b"%x" % salt if salt else b"")).hexdigest()[:40] + SUFFIX


def write_entry(folder: Path, entry: Entry) -> Path:
    """Write an entry and return its place.

    Raises:
        OSError: the file cannot be written; nothing is left of it then.
    """
    place = folder / name_of(entry.guard, entry.ids)
    salt, ids = split_salt(entry.ids)
    head: dict[str, str | int] = {
        "guard": entry.guard,
        "num_tokens": len(entry.ids),
        "kv_bytes": len(entry.kv),
        "snapshot_bytes": len(entry.snapshot),
    }
    if salt:
        head["salt"] = salt
    header = json.dumps(head).encode()
    parts = (_MAGIC, struct.pack("<I", len(header)), header, _packed(ids), entry.kv, entry.snapshot)
    write_atomically(place, _with_digest(parts), durable=True, suffix=PART_SUFFIX)
    return place


def _with_digest(parts: Iterable[bytes]) -> Iterator[bytes]:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
        yield part
    yield digest.digest()


def read_header(place: Path) -> tuple[Header, tuple[int, ...]]:
    """Header and token ids; the rest is not checked, but for its length.

    Raises:
        EngineError: the file is no entry, or is damaged.
        OSError: the file cannot be read or written.
    """
    with _opened(place) as file:
        header, start = _header(file.read(len(_MAGIC) + 4 + _LARGEST_HEADER))
        # Before any of it is read: a header may say whatever it likes.
        if os.fstat(file.fileno()).st_size != _size(header, start):
            raise EngineError(f"{place.name} is not as long as it says")
        file.seek(start)
        ids = _unpacked(file.read(header.num_tokens * _ID_BYTES), header)
    if place.name != name_of(header.guard, ids):
        raise EngineError(f"{place.name} is not under its name")
    return header, ids


def read_entry(place: Path) -> Entry:
    """The whole entry, checked against its digest.

    Raises:
        EngineError: the file is no entry, or is damaged.
        OSError: the file cannot be read or written.
    """
    with _opened(place) as file:
        data = file.read()
    body, digest = data[:-_DIGEST_BYTES], data[-_DIGEST_BYTES:]
    if hashlib.sha256(body).digest() != digest:
        raise EngineError(f"{place.name} does not have its digest")
    header, start = _header(body)
    if len(data) != _size(header, start):
        raise EngineError(f"{place.name} is not as long as it says")
    at = start + header.num_tokens * _ID_BYTES
    return Entry(
        guard=header.guard,
        ids=_unpacked(body[start:at], header),
        kv=body[at : at + header.kv_bytes],
        snapshot=body[at + header.kv_bytes :],
    )


@contextmanager
def _opened(place: Path) -> Generator[BinaryIO]:
    """A regular file, opened without waiting: whoever may write to the folder may put anything there."""
    descriptor = os.open(place, os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NONBLOCK", 0))
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise EngineError(f"{place.name} is no file")
        yield file


def _size(header: Header, start: int) -> int:
    """Bytes of the whole file."""
    return start + header.num_tokens * _ID_BYTES + header.kv_bytes + header.snapshot_bytes + _DIGEST_BYTES


def _checked(header: Header) -> Header:
    sizes = (header.num_tokens, header.kv_bytes, header.snapshot_bytes, header.salt)
    if not isinstance(header.guard, str) or not all(type(size) is int and size >= 0 for size in sizes):
        raise EngineError("a header with sizes that are none")
    return header


def _header(data: bytes) -> tuple[Header, int]:
    """The header and where the token ids start."""
    fixed = len(_MAGIC) + 4
    if data[: len(_MAGIC)] != _MAGIC or len(data) < fixed:
        raise EngineError("not a cache entry")
    (size,) = struct.unpack("<I", data[len(_MAGIC) : fixed])
    try:
        said: Any = json.loads(data[fixed : fixed + size])
        return _checked(Header(**said)), fixed + size
    except (ValueError, TypeError, RecursionError) as error:
        raise EngineError("a header that cannot be read") from error


def _packed(ids: tuple[int, ...]) -> bytes:
    return array("i", ids).tobytes()


def _unpacked(data: bytes, header: Header) -> tuple[int, ...]:
    if len(data) != header.num_tokens * _ID_BYTES:
        raise EngineError("token ids are missing")
    ids = array("i")
    ids.frombytes(data)
    return join_salt(ids, header.salt)
