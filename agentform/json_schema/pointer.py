"""Places in a JSON document: paths of keys, and the same as JSON Pointers (RFC 6901)."""

from __future__ import annotations

from typing import TypeAlias

__all__ = ["Path", "pointer", "steps_of"]

Path: TypeAlias = tuple[str, ...]


def pointer(path: Path) -> str:
    """The path as a JSON Pointer; the root is `""`."""
    return "".join("/" + key.replace("~", "~0").replace("/", "~1") for key in path)


def steps_of(pointer: str) -> Path:
    """The path of a JSON Pointer, such as what stands after the ``#`` of a reference."""
    return tuple(step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:])
