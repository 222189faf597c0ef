"""Intervals for paired comparisons, and calibration error."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Difference", "accuracy", "calibration_error", "difference"]

_DRAWS = 4000


@dataclass(frozen=True, kw_only=True)
class Difference:
    """First minus second on the same cases, in accuracy; the interval covers 95%."""

    mean: float
    low: float
    high: float
    only_first: int
    """Cases that only the first got right."""
    only_second: int
    p: float
    """Exact two-sided McNemar over the discordant cases, which takes cases as independent."""

    def as_dict(self) -> dict[str, Any]:
        """Plain data for the result file."""
        return asdict(self)


def accuracy(right: Sequence[Sequence[bool]]) -> float:
    """Share of right leaves; one row per item."""
    flat = [leaf for row in right for leaf in row]
    return sum(flat) / len(flat) if flat else math.nan


def difference(first: Sequence[Sequence[bool]], second: Sequence[Sequence[bool]], *, seed: int) -> Difference:
    """Paired over leaves; whole items are drawn in the bootstrap, since an item's leaves are not independent."""
    pairs = [(a, b) for row, other in zip(first, second, strict=True) for a, b in zip(row, other, strict=True)]
    only_first = sum(a and not b for a, b in pairs)
    only_second = sum(b and not a for a, b in pairs)
    gains = np.array([sum(row) - sum(other) for row, other in zip(first, second, strict=True)], dtype=float)
    draws = _means(gains, np.array([len(row) for row in first], dtype=float), seed)
    return Difference(
        mean=float(gains.sum() / len(pairs)),
        low=float(np.quantile(draws, 0.025)),
        high=float(np.quantile(draws, 0.975)),
        only_first=only_first,
        only_second=only_second,
        p=_mcnemar(only_first, only_second),
    )


def _means(gains: npt.NDArray[np.float64], sizes: npt.NDArray[np.float64], seed: int) -> npt.NDArray[np.float64]:
    drawn = np.random.default_rng(seed).integers(0, len(gains), size=(_DRAWS, len(gains)))
    return gains[drawn].sum(axis=1) / sizes[drawn].sum(axis=1)


def _mcnemar(only_first: int, only_second: int) -> float:
    total, least = only_first + only_second, min(only_first, only_second)
    if total == 0:
        return 1.0
    tail = sum(math.comb(total, k) for k in range(least + 1)) / 2**total
    return min(1.0, 2 * tail)


def calibration_error(confidence: Sequence[float], right: Sequence[bool], bins: int = 10) -> float:
    """Expected calibration error: mean gap between confidence and accuracy over equally filled bins."""
    order = np.argsort(np.array(confidence, dtype=float), kind="stable")
    sure, hit = np.array(confidence, dtype=float)[order], np.array(right, dtype=float)[order]
    parts = zip(np.array_split(sure, bins), np.array_split(hit, bins), strict=True)
    return float(sum(abs(s.mean() - h.mean()) * len(s) for s, h in parts if len(s)) / len(sure))
