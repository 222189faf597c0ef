"""Paired comparisons and their 95% intervals: ratios within a round, gaps within an item, forms with leaves."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Difference", "Gap", "Ratio", "Values", "difference", "drawn", "gap", "interval", "quantiles", "ratio"]

_DRAWS = 4000
_SEED = 7
Values = Mapping[Any, float]
"""One figure per round or item."""
Floats = npt.NDArray[np.float64]


def drawn(num: int, *, seed: int = _SEED, draws: int = _DRAWS) -> npt.NDArray[np.int64]:
    """Indices of `num` things drawn with replacement, `[draws, num]`."""
    return np.random.default_rng(seed).integers(0, num, size=(draws, num))


def interval(figures: Floats) -> tuple[float, float]:
    """Where 95% of the figures of the draws lie."""
    return float(np.quantile(figures, 0.025)), float(np.quantile(figures, 0.975))


def quantiles(values: Sequence[float], points: int = 20) -> list[float]:
    """`points + 1` evenly spaced quantiles, least and greatest among them; empty without values."""
    if not values:
        return []
    ordered = sorted(values)
    return [ordered[round(at * (len(ordered) - 1) / points)] for at in range(points + 1)]


@dataclass(frozen=True, kw_only=True)
class Ratio:
    """Median over rounds of one over the other; the interval covers 95%."""

    median: float
    low: float
    high: float
    rounds: int

    def as_dict(self) -> dict[str, Any]:
        """Plain data for the result file."""
        return asdict(self)


def ratio(theirs: Values, ours: Values) -> Ratio | None:
    """Paired within the round, so that what slows the machine down slows both; None without a common round."""
    common = [key for key in ours if key in theirs]
    if not common:
        return None
    ratios = np.array([theirs[key] / ours[key] for key in common])
    low, high = interval(np.median(ratios[drawn(len(ratios))], axis=1))
    return Ratio(median=statistics.median(ratios.tolist()), low=low, high=high, rounds=len(common))


@dataclass(frozen=True, kw_only=True)
class Gap:
    """Theirs minus ours in points of percent; the interval covers 95%."""

    mean: float
    low: float
    high: float
    items: int

    def as_dict(self) -> dict[str, Any]:
        """Plain data for the result file."""
        return asdict(self)


def gap(theirs: Values, ours: Values) -> Gap | None:
    """Paired over the items that both have; None without one."""
    common = [key for key in ours if key in theirs]
    if not common:
        return None
    gaps = 100 * np.array([theirs[key] - ours[key] for key in common])
    low, high = interval(gaps[drawn(len(gaps))].mean(axis=1))
    return Gap(mean=float(gaps.mean()), low=low, high=high, items=len(common))


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


def difference(first: Sequence[Sequence[bool]], second: Sequence[Sequence[bool]], *, seed: int) -> Difference:
    """Paired over leaves; whole items are drawn in the bootstrap, since an item's leaves are not independent."""
    pairs = [(a, b) for row, other in zip(first, second, strict=True) for a, b in zip(row, other, strict=True)]
    only_first = sum(a and not b for a, b in pairs)
    only_second = sum(b and not a for a, b in pairs)
    gains = np.array([sum(row) - sum(other) for row, other in zip(first, second, strict=True)], dtype=float)
    sizes = np.array([len(row) for row in first], dtype=float)
    which = drawn(len(gains), seed=seed)
    low, high = interval(gains[which].sum(axis=1) / sizes[which].sum(axis=1))
    mean, p = float(gains.sum() / len(pairs)), _mcnemar(only_first, only_second)
    return Difference(mean=mean, low=low, high=high, only_first=only_first, only_second=only_second, p=p)


def _mcnemar(only_first: int, only_second: int) -> float:
    total, least = only_first + only_second, min(only_first, only_second)
    if total == 0:
        return 1.0
    tail = sum(math.comb(total, k) for k in range(least + 1)) / 2**total
    return min(1.0, 2 * tail)
