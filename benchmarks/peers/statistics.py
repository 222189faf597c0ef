"""Ratios of what was measured in the same round, their medians, and bootstrap intervals."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

__all__ = ["Difference", "Ratio", "Values", "difference", "ratio"]

_DRAWS = 4000
_SEED = 7
Values = Mapping[Any, float]
"""One figure per round or item."""


@dataclass(frozen=True, kw_only=True)
class Ratio:
    """Median over rounds of peer over agentform; the interval covers 95%."""

    median: float
    low: float
    high: float
    rounds: int

    def as_dict(self) -> dict[str, Any]:
        """Plain data for the result file."""
        return asdict(self)


def ratio(peer: Values, ours: Values) -> Ratio | None:
    """Paired within the round, so that what slows the machine down slows both; None without a common round."""
    common = [key for key in ours if key in peer]
    if not common:
        return None
    ratios = np.array([peer[key] / ours[key] for key in common])
    drawn = np.random.default_rng(_SEED).integers(0, len(ratios), size=(_DRAWS, len(ratios)))
    medians = np.median(ratios[drawn], axis=1)
    return Ratio(
        median=statistics.median(ratios.tolist()),
        low=float(np.quantile(medians, 0.025)),
        high=float(np.quantile(medians, 0.975)),
        rounds=len(common),
    )


@dataclass(frozen=True, kw_only=True)
class Difference:
    """Peer minus agentform in points of percent; the interval covers 95%."""

    mean: float
    low: float
    high: float
    items: int

    def as_dict(self) -> dict[str, Any]:
        """Plain data for the result file."""
        return asdict(self)


def difference(peer: Values, ours: Values) -> Difference | None:
    """Paired over the items that both have; None without one."""
    common = [key for key in ours if key in peer]
    if not common:
        return None
    gaps = 100 * np.array([peer[key] - ours[key] for key in common])
    drawn = np.random.default_rng(_SEED).integers(0, len(gaps), size=(_DRAWS, len(gaps)))
    means = gaps[drawn].mean(axis=1)
    return Difference(
        mean=float(gaps.mean()),
        low=float(np.quantile(means, 0.025)),
        high=float(np.quantile(means, 0.975)),
        items=len(common),
    )
