"""The manifest of a converted model folder: written last, so that its presence means the folder is whole."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentform.errors import WeightsCorrupt

__all__ = ["CONVERTER_VERSION", "FileRecord", "Manifest", "file_sha256", "read_manifest", "write_manifest"]

CONVERTER_VERSION = 1
"""Raised by one whenever the conversion writes something else from the same GGUF."""
_NAME = "manifest.json"


@dataclass(frozen=True)
class FileRecord:
    """Size and digest of one file."""

    bytes: int
    sha256: str


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """What a converted folder holds and what it was made from."""

    model: str
    source_sha256: str
    converter: int
    files: Mapping[str, FileRecord]

    def matches(self, folder: Path) -> bool:
        """Whether every file is there with its recorded size; digests are not read again."""
        return all(_size(folder / name) == record.bytes for name, record in self.files.items())

    def verify(self, folder: Path) -> None:
        """Read every file and compare digests.

        Raises:
            WeightsCorrupt: weights do not have the digest or the files that they should have.
        """
        for name, record in self.files.items():
            if _size(folder / name) != record.bytes or file_sha256(folder / name) != record.sha256:
                raise WeightsCorrupt(f"{folder / name} is not the file that was written; remove {folder} to redo it")


def write_manifest(folder: Path, *, model: str, source_sha256: str) -> Manifest:
    """Record every file of `folder`."""
    paths = sorted(path for path in folder.iterdir() if path.name != _NAME)
    files = {path.name: FileRecord(path.stat().st_size, file_sha256(path)) for path in paths}
    manifest = Manifest(model=model, source_sha256=source_sha256, converter=CONVERTER_VERSION, files=files)
    (folder / _NAME).write_text(json.dumps(_to_json(manifest), indent=2) + "\n", encoding="utf-8")
    return manifest


def read_manifest(folder: Path) -> Manifest | None:
    """The manifest of `folder`; `None` when there is none that can be read."""
    try:
        return _from_json(json.loads((folder / _NAME).read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def file_sha256(path: Path) -> str:
    """Hexadecimal SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _size(path: Path) -> int | None:
    return path.stat().st_size if path.is_file() else None


def _to_json(manifest: Manifest) -> dict[str, Any]:
    return {
        "model": manifest.model,
        "source_sha256": manifest.source_sha256,
        "converter": manifest.converter,
        "files": {name: {"bytes": f.bytes, "sha256": f.sha256} for name, f in manifest.files.items()},
    }


def _from_json(data: Any) -> Manifest:
    return Manifest(
        model=data["model"],
        source_sha256=data["source_sha256"],
        converter=data["converter"],
        files={name: FileRecord(f["bytes"], f["sha256"]) for name, f in data["files"].items()},
    )
