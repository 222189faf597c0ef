"""The label prior: what a model answers when there is nothing to answer, and how it is taken out.

A small model leans to one option whatever the text says. The mean log score of the same question over a few
content-free inputs measures that lean without labels or data; subtracting it is contextual calibration
(Zhao et al., "Calibrate Before Use", 2021, arXiv 2102.09690), here in log space and averaged over several inputs.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeGuard, cast

from agentform._util.files import write_atomically

__all__ = ["CONTENT_FREE", "PriorStore", "calibrated"]

CONTENT_FREE = (
    "N/A",
    "",
    "[MASK]",
    "...",
    "Lorem ipsum dolor sit amet, consectetur adipiscing elit.",
    "The quick brown fox jumps over the lazy dog.",
)
"""Inputs that carry no content: the model's answers to them are its label prior."""


def calibrated(
    log_scores: Sequence[float], prior: Sequence[float], strength: float, nothing: int | None = None
) -> tuple[float, ...]:
    """Log scores with `strength` times the mean log prior taken out; 0 leaves them raw.

    `nothing` is the option that says "nothing", if there is one. It is the right answer to a content-free input, so
    what the prior gives it is no lean; it is corrected by as much as the others are on average.
    """
    if nothing is not None:
        others = [lean for at, lean in enumerate(prior) if at != nothing]
        prior = [sum(others) / len(others) if at == nothing else lean for at, lean in enumerate(prior)]
    return tuple(score - strength * lean for score, lean in zip(log_scores, prior, strict=True))


class PriorStore:
    """Priors by key, in memory and, with a folder, on disk. Keys name model, prompt and question.

    Several processes may share a folder: a file is written whole and renamed into place.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._known: dict[str, tuple[float, ...]] = {}
        self._seen: dict[str, tuple[int, tuple[float, ...]]] = {}

    @staticmethod
    def key(*parts: object) -> str:
        """Digest over everything that a prior depends on."""
        return hashlib.sha256(json.dumps(parts, ensure_ascii=False).encode()).hexdigest()

    def get(self, key: str, *, size: int) -> tuple[float, ...] | None:
        """The mean log scores kept under `key`, or `None` when unknown or not `size` numbers."""
        if key not in self._known and (prior := self._read(key)) is not None:
            self._known[key] = prior
        prior = self._known.get(key)
        return prior if prior is not None and len(prior) == size else None

    def put(self, key: str, prior: Sequence[float]) -> None:
        """Keep mean log scores under `key`; where the folder cannot be written they are kept in memory alone."""
        self._known[key] = tuple(prior)
        if self._folder is not None:
            with suppress(OSError):
                self._write(self._folder, key, prior)

    def observe(self, key: str, log_scores: Sequence[float]) -> None:
        """Add what one real request scored to the running sums under `key`; these stay in memory."""
        count, sums = self._seen.get(key, (0, (0.0,) * len(log_scores)))
        self._seen[key] = count + 1, tuple(a + b for a, b in zip(sums, log_scores, strict=True))

    def mixed(self, key: str, prior: tuple[float, ...], weight: float) -> tuple[float, ...]:
        """The prior, counted as `weight` requests, averaged with the real requests seen under `key`."""
        count, sums = self._seen.get(key, (0, prior))
        if not weight or not count:
            return prior
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

    @staticmethod
    def _write(folder: Path, key: str, prior: Sequence[float]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / f"{key}.json", json.dumps(list(prior)))


def _is_numbers(value: object) -> TypeGuard[list[float]]:
    listed = cast("list[object]", value) if isinstance(value, list) else [None]
    return all(isinstance(item, float) and math.isfinite(item) for item in listed)
