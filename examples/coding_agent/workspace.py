"""File tools that stay inside one folder: what an agent may do there, and what it may not."""

# No `from __future__ import annotations`: the types of the tools are made while they are defined.

import os
import stat
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from agentform import tool

__all__ = ["Change", "NotAllowed", "Workspace"]


class NotAllowed(Exception):
    """Raised when a path leaves the folder, a file is too large, or an edit does not fit. The model is told."""


@dataclass(frozen=True, kw_only=True)
class Change:
    """What a call would do to a file."""

    path: str
    before: str
    after: str

    @property
    def diff(self) -> str:
        """For people."""
        lines = [text.splitlines(keepends=True) for text in (self.before, self.after)]
        return "".join(unified_diff(*lines, fromfile=self.path, tofile=self.path))


class Workspace:
    """A folder, and the tools over it. Hidden files are neither shown nor touched."""

    def __init__(self, root: Path, *, max_bytes: int = 20_000, max_files: int = 200) -> None:
        self._root = root.resolve(strict=True)
        self._max_bytes = max_bytes
        self._max_files = max_files

    def files(self) -> list[str]:
        """Paths of the files, relative to the folder."""
        found: list[str] = []
        for folder, folders, names in os.walk(self._root):
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            places = (Path(folder, name) for name in sorted(names) if not name.startswith("."))
            found += [place.relative_to(self._root).as_posix() for place in places if not place.is_symlink()]
        return found[: self._max_files]

    def tools(self) -> list[Any]:
        """The tools. A file to read or edit is chosen among those that are there now, so its name cannot be made up."""
        files = self.files()
        known: Any = Literal[tuple(files)] if files else str

        @tool
        def list_files() -> str:
            """List the files of the project."""
            return "\n".join(self.files()) or "The folder is empty."

        @tool
        def read_file(path: Annotated[known, Field(description="The file to read")]) -> str:
            """Read a file of the project."""
            return self.read(path)

        @tool
        def edit_file(
            path: Annotated[known, Field(description="The file to edit")],
            old: Annotated[str, Field(min_length=1, description="Text that is in the file exactly once")],
            new: Annotated[str, Field(description="What shall stand there instead")],
        ) -> str:
            """Replace a piece of text in a file of the project."""
            return self._write(self.edit(path, old, new))

        @tool
        def write_file(
            path: Annotated[str, Field(min_length=1, max_length=100, description="A file that does not exist yet")],
            text: Annotated[str, Field(description="The whole text of the file")],
        ) -> str:
            """Write a new file into the project."""
            return self._write(self.create(path, text))

        return [list_files, read_file, edit_file, write_file]

    def read(self, path: str) -> str:
        """The text of a file, its lines ended by line feeds alone. Raises NotAllowed."""
        return self._exact(path).replace("\r\n", "\n")

    def _exact(self, path: str) -> str:
        """The text of a file as it is."""
        place = self._place(path)
        if not place.is_file():
            raise NotAllowed(f"{path} is no file; there is {', '.join(self.files()[:10]) or 'none'}")
        if place.stat().st_size > self._max_bytes:
            raise NotAllowed(f"{path} has more than {self._max_bytes:,} bytes")
        try:
            return place.read_bytes().decode()
        except UnicodeDecodeError:
            raise NotAllowed(f"{path} is no UTF-8 text") from None

    def edit(self, path: str, old: str, new: str) -> Change:
        """The change that replaces `old`, which must be there once. Raises NotAllowed."""
        text = self._exact(path)
        if "\r\n" in text and old not in text:  # lines end as they did
            old, new = (part.replace("\n", "\r\n") for part in (old, new))
        if (num := text.count(old)) != 1:
            raise NotAllowed(f"the text to replace is in {path} {num} times; it must be there exactly once")
        return Change(path=path, before=text, after=text.replace(old, new))

    def create(self, path: str, text: str) -> Change:
        """The change that makes a new file. Raises NotAllowed."""
        if self._place(path).exists():
            raise NotAllowed(f"{path} exists; edit it instead")
        return Change(path=path, before="", after=text)

    def change(self, name: str, arguments: Mapping[str, Any]) -> Change | None:
        """What a call of a tool would change; `None` for tools that change nothing. Raises NotAllowed."""
        if name == "edit_file":
            return self.edit(**arguments)
        return self.create(**arguments) if name == "write_file" else None

    def _place(self, path: str) -> Path:
        """Where a path points. Links are followed before it is judged, so none leads out."""
        try:
            place = (self._root / path).resolve()
        except (OSError, ValueError) as error:
            raise NotAllowed(f"{path!r} is no path: {error}") from None
        inside = place.relative_to(self._root) if place.is_relative_to(self._root) else None
        if inside is None or not inside.parts:
            raise NotAllowed(f"{path!r} is not inside the project")
        if any(part.startswith(".") for part in inside.parts):
            raise NotAllowed(f"{path!r} is hidden")
        return place

    def _write(self, change: Change) -> str:
        place = self._place(change.path)
        if len(change.after.encode()) > self._max_bytes:
            raise NotAllowed(f"{change.path} would have more than {self._max_bytes:,} bytes")
        place.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=place.parent, prefix=".", suffix=".tmp")
        with os.fdopen(handle, "wb") as file:
            file.write(change.after.encode())
        os.chmod(name, stat.S_IMODE(place.stat().st_mode) if place.exists() else 0o644)
        os.replace(name, place)
        return f"{change.path} is written."
