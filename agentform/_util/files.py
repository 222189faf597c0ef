"""Files that are there whole or not at all, whoever reads or writes them meanwhile."""

from __future__ import annotations

import os
import secrets
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path

__all__ = ["replacing", "write_atomically"]

_PRIVATE = 0o600


@contextmanager
def replacing(path: Path, *, suffix: str = ".tmp") -> Generator[Path]:
    """A place beside `path` to write a file to, which becomes `path` at the end; on an error `path` stays as it was.

    The place has a name of its own, hidden and ending in `suffix`, by which leftovers of a process that died are known.

    Raises:
        OSError: the file cannot take its place.
    """
    beside = path.with_name(f".{path.name}.{secrets.token_hex(8)}{suffix}")
    try:
        yield beside
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


def write_atomically(
    path: Path,
    content: str | bytes | Iterable[bytes],
    *,
    durable: bool = False,
    mode: int = _PRIVATE,
    suffix: str = ".tmp",
) -> None:
    """Write `content`, text as UTF-8, to a file that takes the place of `path` as a whole; the folder must exist.

    Args:
        path: The file.
        content: All of it, or its parts in order.
        durable: Whether it is on disk before it takes its place, so that a machine that stops leaves no empty file.
        mode: Permissions, of which the process's umask is taken away; by default the user's alone.
        suffix: See `replacing`.

    Raises:
        OSError: it cannot be written; `path` is as it was, and nothing else is left.
    """
    if isinstance(content, str):
        content = content.encode()
    with replacing(path, suffix=suffix) as beside:
        with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            file.writelines((content,) if isinstance(content, bytes) else content)
            if durable:
                file.flush()
                os.fsync(file.fileno())
