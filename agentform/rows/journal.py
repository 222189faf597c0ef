"""Results of rows on disk as they are made, so that work that was interrupted goes on where it ended.

One JSON object a line: the row's number, a key of all that decided its result, and the result or the error. A line that
broke off is the last one, and is written again; of two lines for one row the later one counts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeAlias, cast

from agentform.errors import InvalidInput
from agentform.schema.json_text import dumps

__all__ = ["Journal", "RowEntry", "row_key"]

RowEntry: TypeAlias = Mapping[str, Any]
"""`row`, `key`, and `value` or `error`."""


def row_key(*identity: str) -> str:
    """A key of what decides a result."""
    return sha256("\0".join(identity).encode(errors="surrogatepass")).hexdigest()[:16]


class Journal:
    """The entries of a file, by row; further ones are added at its end. Use as a context manager."""

    def __init__(self, path: Path) -> None:
        """Read what is there.

        Raises:
            InvalidInput: the file cannot be read or written, or holds something else; it names the line.
        """
        self.path = path
        self.entries: dict[int, RowEntry] = {}
        try:
            whole = self._read(path.read_bytes()) if path.exists() else 0
            self._file = path.open("r+b" if path.exists() else "w+b")
            self._file.truncate(whole)
            self._file.seek(whole)
        except OSError as error:
            raise InvalidInput(f"cannot use {path}: {error}") from error

    def _read(self, data: bytes) -> int:
        """Read the whole lines; returns where they end."""
        end = data.rfind(b"\n") + 1
        for number, line in enumerate(data[:end].splitlines(), 1):
            try:
                entry = cast("RowEntry", json.loads(line))
                self.entries[int(entry["row"])] = entry
            except (ValueError, KeyError, TypeError) as error:
                raise InvalidInput(f"{self.path}, line {number} is no result of a row: {error!r}") from error
        return end

    def add(self, entry: RowEntry) -> None:
        """Write an entry, at once."""
        self.entries[int(entry["row"])] = entry
        self._file.write(dumps(entry).encode() + b"\n")
        self._file.flush()

    def is_done(self, row: int, key: str) -> bool:
        """Whether there is a result for the row; one with an error is to be tried again.

        Raises:
            InvalidInput: what is there was made from something else.
        """
        entry = self.entries.get(row)
        if entry is None:
            return False
        if entry.get("key") != key:
            other = f"was begun with another input, form, instructions or model (row {row})"
            raise InvalidInput(f"{self.path} {other}; remove it to begin anew")
        return "error" not in entry

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()
