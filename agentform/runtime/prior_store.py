"""Label priors by key: what a model answers to a question when there is nothing to answer."""

from __future__ import annotations

import hashlib
import json
import math
import os
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeGuard, cast

from agentform._util.files import write_atomically
from agentform._util.lru import BoundedDict

__all__ = ["PriorStore"]

_MOST = 8192
"""Priors in memory, and twice as many files in a folder."""
_TIDY_EVERY = 256
"""Files written between two looks at how many there are."""


class PriorStore:
    """Priors by key, in memory and, with a folder, on disk; those used last. Keys name model, prompt and question.

    Several processes may share a folder: a file is written whole and renamed into place. Threads may share a store.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._known: BoundedDict[str, tuple[float, ...]] = BoundedDict(_MOST)
        self._seen: BoundedDict[str, tuple[int, tuple[float, ...]]] = BoundedDict(_MOST)
        self._num_written = 0
        self._lock = threading.Lock()

    @staticmethod
    def key(*parts: object) -> str:
        """Digest over everything that a prior depends on."""
        return hashlib.sha256(json.dumps(parts, ensure_ascii=False).encode()).hexdigest()

    def get(self, key: str, *, size: int) -> tuple[float, ...] | None:
        """The mean log scores kept under `key`, or `None` when unknown or not `size` numbers."""
        with self._lock:
            prior = self._known.use(key)
        if prior is None and (prior := self._read(key)) is not None:
            self._keep(key, prior)
        return prior if prior is not None and len(prior) == size else None

    def put(self, key: str, prior: Sequence[float]) -> None:
        """Keep mean log scores under `key`; where the folder cannot be written they are kept in memory alone."""
        self._keep(key, tuple(prior))
        if self._folder is not None:
            with suppress(OSError):
                self._write(self._folder, key, prior)

    def observe(self, key: str, log_scores: Sequence[float]) -> None:
        """Add what one real request scored to the running sums under `key`; these stay in memory."""
        with self._lock:
            count, sums = self._seen.get(key) or (0, (0.0,) * len(log_scores))
            self._seen[key] = count + 1, tuple(a + b for a, b in zip(sums, log_scores, strict=True))

    def mixed(self, key: str, prior: tuple[float, ...], weight: float) -> tuple[float, ...]:
        """The prior, counted as `weight` requests, averaged with the real requests seen under `key`."""
        seen = self._seen.get(key)
        if not weight or seen is None:
            return prior
        count, sums = seen
        return tuple((weight * lean + total) / (weight + count) for lean, total in zip(prior, sums, strict=True))

    def _read(self, key: str) -> tuple[float, ...] | None:
        if self._folder is None:
            return None
        try:
            numbers = json.loads((self._folder / f"{key}.json").read_text(), parse_int=float)
        except (OSError, ValueError):
            # What is missing, damaged or not to be read is measured again; nothing is guessed from it.
            return None
        return tuple(numbers) if _is_numbers(numbers) else None

    def _keep(self, key: str, prior: tuple[float, ...]) -> None:
        with self._lock:
            self._known[key] = prior

    def _write(self, folder: Path, key: str, prior: Sequence[float]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / f"{key}.json", json.dumps(list(prior)))
        if self._num_written % _TIDY_EVERY == 0:
            _forget_oldest(folder)
        self._num_written += 1


def _forget_oldest(folder: Path) -> None:
    """Remove the files written first, beyond what a folder may hold."""
    with os.scandir(folder) as entries:
        written = sorted((entry.stat().st_mtime, entry.path) for entry in entries if entry.name.endswith(".json"))
    for _, path in written[: -2 * _MOST]:
        Path(path).unlink(missing_ok=True)


def _is_numbers(value: object) -> TypeGuard[list[float]]:
    listed = cast("list[object]", value) if isinstance(value, list) else [None]
    return all(isinstance(item, float) and math.isfinite(item) for item in listed)
