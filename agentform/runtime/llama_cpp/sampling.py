"""Picks the next token from one row of logits, and reads probabilities from it, without any library but numpy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from agentform.runtime.engine import Sampling
from agentform.runtime.scheduling.logits import LEAST_TEMPERATURE, check_highest

__all__ = ["NumpySampler", "logprobs"]

_LEAST_NUCLEUS = 1e-9


class NumpySampler:
    """Implements `agentform.runtime.scheduling.logits.Sampler` over arrays."""

    def __init__(self, sampling: Sampling) -> None:
        self._sampling = sampling
        self._random = np.random.default_rng(sampling.seed & (1 << 64) - 1)

    def pick(self, logits: npt.NDArray[np.float32], allowed: npt.NDArray[np.bool_] | None = None) -> int:
        """The next token's id; logits `[vocabulary]`, allowed the same shape or shorter."""
        if allowed is not None:
            logits = np.where(allowed, logits[: len(allowed)], -np.inf)
        highest = float(logits.max())
        check_highest(highest)
        if self._sampling.temperature == 0:
            return int(logits.argmax())
        # The difference first: however low the temperature, the highest stays 0 and the others go to minus infinity.
        with np.errstate(over="ignore"):
            return self._draw(
                (logits.astype(np.float64) - highest) / max(self._sampling.temperature, LEAST_TEMPERATURE)
            )

    def _draw(self, logits: npt.NDArray[np.float64]) -> int:
        weights = np.exp(logits - logits.max())
        weights /= weights.sum()
        if self._sampling.top_p >= 1:
            return self._among(weights)
        order = np.argsort(-weights, kind="stable")
        ordered = weights[order]
        before = np.cumsum(ordered) - ordered
        # The first token stays whatever top_p is: nothing stands before it.
        ordered = np.where(before >= max(self._sampling.top_p, _LEAST_NUCLEUS), 0.0, ordered)
        return int(order[self._among(ordered)])

    def _among(self, weights: npt.NDArray[np.float64]) -> int:
        sums = np.cumsum(weights)
        return int(np.searchsorted(sums, self._random.random() * sums[-1], side="right"))


def logprobs(row: npt.NDArray[np.float32], ids: Sequence[int]) -> list[float]:
    """See `agentform.runtime.scheduling.logits.LogProbs`; row `[vocabulary]`."""
    highest = row.max()
    check_highest(float(highest))
    total = float(highest) + float(np.log(np.exp(row - highest, dtype=np.float64).sum()))
    return [float(row[i]) - total for i in ids]
