"""Calibration error before and after a temperature, the temperature fitted on one half and judged on the other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benchmarks.common.items import Item
from studies.forms.lean import Row, best, normalised
from studies.forms.metrics import calibration_error

__all__ = ["errors_by_temperature"]

_TEMPERATURES = tuple(float(t) for t in np.geomspace(0.25, 16, 49))


def errors_by_temperature(items: Sequence[Item], scores: Sequence[Row]) -> dict[str, float]:
    """Expected calibration error of one-leaf items; each half is judged under the temperature of the other."""
    halves = [list(range(start, len(items), 2)) for start in (0, 1)]
    fitted = [_fitted(items, scores, half) for half in halves]
    sure: dict[str, list[float]] = {"before": [], "after": []}
    hits: list[bool] = []
    for half, temperature in zip(halves, reversed(fitted), strict=True):
        for index in half:
            taken = best(scores[index])
            hits.append(items[index].fields[0].is_right(taken))
            sure["before"].append(float(np.exp(normalised(scores[index])[taken])))
            sure["after"].append(float(np.exp(normalised(scores[index] / temperature)[taken])))
    errors = {kind: calibration_error(values, hits) for kind, values in sure.items()}
    return {**errors, "temperature": float(np.mean(fitted))}


def _fitted(items: Sequence[Item], scores: Sequence[Row], half: Sequence[int]) -> float:
    """The temperature that makes the right options of these items most probable."""

    def loss(temperature: float) -> float:
        rows = (normalised(scores[i] / temperature) for i in half)
        return -sum(_right_log_p(items[i], row) for i, row in zip(half, rows, strict=True))

    return min(_TEMPERATURES, key=loss)


def _right_log_p(item: Item, row: Row) -> float:
    right = [row[i] for i in range(len(row)) if item.fields[0].is_right(i)]
    return float(np.logaddexp.reduce(right))
