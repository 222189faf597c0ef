"""What is taken out of raw log scores: the label prior, estimated in several ways and with several strengths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from agentform.messages import JsonValue

__all__ = ["STRENGTHS", "Running", "best", "corrected", "keep_null", "normalised", "prior_of"]

Row = npt.NDArray[np.float64]
STRENGTHS = (0.0, 0.25, 0.5, 0.7, 0.85, 1.0)


def normalised(log_scores: Sequence[float] | Row) -> Row:
    """Log probabilities over the options alone."""
    row = np.array(log_scores, dtype=float)
    return row - np.logaddexp.reduce(row)


def prior_of(runs: Sequence[Sequence[float]]) -> Row:
    """Mean log probability of each option over the content-free inputs."""
    return np.mean([normalised(run) for run in runs], axis=0)


def keep_null(prior: Row, options: Sequence[JsonValue]) -> Row:
    """The prior with null's part set to the mean of the others.

    Where nothing was said null is the right answer and no lean, so its standing against the others stays.
    """
    null = np.array([option is None for option in options])
    if not null.any() or null.all():
        return prior
    kept = prior.copy()
    kept[null] = prior[~null].mean()
    return kept


def corrected(log_scores: Sequence[float], prior: Row, strength: float) -> Row:
    """Log scores with `strength` times the prior taken out."""
    return normalised(log_scores) - strength * prior


def best(scores: Row) -> int:
    """Index of the best option; the first of equals."""
    return int(np.argmax(scores))


@dataclass
class Running:
    """Mean log probability over the requests seen so far, no labels; `weight` requests' worth of a prior to begin."""

    weight: float = 0.0
    _sums: dict[tuple[str, int], Row] = field(default_factory=dict)
    _counts: dict[tuple[str, int], int] = field(default_factory=dict)

    def after(self, key: tuple[str, int], log_scores: Sequence[float], prior: Row) -> Row:
        """The estimate for one leaf of one form, this request counted in."""
        row = normalised(log_scores)
        self._sums[key] = self._sums.get(key, np.zeros_like(row)) + row
        self._counts[key] = self._counts.get(key, 0) + 1
        return (self.weight * prior + self._sums[key]) / (self.weight + self._counts[key])
