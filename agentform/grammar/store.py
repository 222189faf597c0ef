"""What was hard to find out about grammars, kept on disk between runs.

llguidance has no compiled form that can be written to a file, and compiling one schema takes it about a
millisecond. What can take long is finding the form of a schema that compiles at all: that text is kept, and is
compiled again when it is needed. For xgrammar, whose compiled form can be written and takes long to make, that
form itself is kept.
"""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from agentform._util.files import write_atomically
from agentform.errors import Relaxation
from agentform.grammar.keywords import GrammarEngine
from agentform.grammar.spec import GrammarSpec

__all__ = ["GrammarStore", "Recipe", "recipe_key"]

_FORMAT = 2
"""Raised when the same specification would be prepared otherwise than before."""


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How a specification compiles."""

    text: str
    """What the engine is given: Lark text for llguidance, its own serialised grammar for xgrammar."""
    relaxed: tuple[Relaxation, ...]


def recipe_key(engine: GrammarEngine, spec: GrammarSpec, vocabulary_digest: str) -> str:
    """A name that changes with the specification, the vocabulary, the engine's version and this format."""
    said = [_FORMAT, engine, version(engine), vocabulary_digest, spec.kind, spec.text, spec.lead, spec.follow]
    said += [spec.owner] if spec.owner else []
    return hashlib.sha256(json.dumps(said).encode()).hexdigest()


class GrammarStore:
    """A folder of recipes; several processes may share it. A file that cannot be read or written is no error."""

    def __init__(self, folder: Path, *, max_bytes: int = 64_000_000) -> None:
        """Beyond `max_bytes` the files that were written first are removed."""
        self._folder = folder
        self._max_bytes = max_bytes

    def get(self, key: str) -> Recipe | None:
        """The recipe of that name; `None` when there is none, or when its file is damaged."""
        with suppress(OSError, ValueError, KeyError, TypeError):
            body, _, digest = self._path(key).read_text(encoding="utf-8").rpartition("\n")
            if digest == _digest(body):
                said = json.loads(body)
                relaxed = tuple(Relaxation(pointer=at, what=what) for at, what in said["relaxed"])
                return Recipe(text=said["text"], relaxed=relaxed)
        return None

    def put(self, key: str, recipe: Recipe) -> None:
        """Keep the recipe, unless it is larger than the whole store may be."""
        said = {"text": recipe.text, "relaxed": [[item.pointer, item.what] for item in recipe.relaxed]}
        body = json.dumps(said)
        if len(body) > self._max_bytes:
            return
        with suppress(OSError):
            self._folder.mkdir(parents=True, exist_ok=True)
            write_atomically(self._path(key), f"{body}\n{_digest(body)}")
            self._trim()

    def _path(self, key: str) -> Path:
        return self._folder / f"{key}.json"

    def _trim(self) -> None:
        found = sorted((item.stat().st_mtime, item.stat().st_size, item) for item in self._folder.glob("*.json"))
        surplus = sum(size for _, size, _ in found) - self._max_bytes
        for _, size, path in found:
            if surplus <= 0:
                return
            path.unlink(missing_ok=True)
            surplus -= size


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
