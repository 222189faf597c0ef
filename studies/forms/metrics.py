"""Share of right leaves, and calibration error."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

__all__ = ["accuracy", "calibration_error"]


def accuracy(right: Sequence[Sequence[bool]]) -> float:
    """Share of right leaves; one row per item."""
    flat = [leaf for row in right for leaf in row]
    return sum(flat) / len(flat) if flat else math.nan


def calibration_error(confidence: Sequence[float], right: Sequence[bool], bins: int = 10) -> float:
    """Expected calibration error: mean gap between confidence and accuracy over equally filled bins."""
    order = np.argsort(np.array(confidence, dtype=float), kind="stable")
    sure, hit = np.array(confidence, dtype=float)[order], np.array(right, dtype=float)[order]
    parts = zip(np.array_split(sure, bins), np.array_split(hit, bins), strict=True)
    return float(sum(abs(s.mean() - h.mean()) * len(s) for s, h in parts if len(s)) / len(sure))
