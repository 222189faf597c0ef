"""Picks the next token from one row of logits, and reads probabilities from it, without any library but numpy."""

from __future__ import annotations

from collections import Counter
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
        self._counts: Counter[int] = Counter()
        self._random = np.random.default_rng(sampling.seed & (1 << 64) - 1)

    def pick(self, logits: npt.NDArray[np.float32], allowed: npt.NDArray[np.bool_] | None = None) -> int:
        """The next token's id; logits `[vocabulary]`, allowed the same shape or shorter."""
        token = self._pick(self._penalised(logits), allowed)
        if self._sampling.penalises:
            self._counts[token] += 1
        return token

    def _penalised(self, logits: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """The logits of tokens that were picked already are lowered."""
        if not self._counts:
            return logits
        ids, times = np.array(list(self._counts)), np.array(list(self._counts.values()))
        logits = logits.copy()
        found, by = logits[ids], self._sampling.repetition_penalty
        found = np.where(found > 0, found / by, found * by)
        logits[ids] = found - self._sampling.frequency_penalty * times - self._sampling.presence_penalty
        return logits

    def _pick(self, logits: npt.NDArray[np.float32], allowed: npt.NDArray[np.bool_] | None) -> int:
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
        if 0 < self._sampling.top_k < len(logits):
            least = np.partition(logits, -self._sampling.top_k)[-self._sampling.top_k]
            logits = np.where(logits < least, -np.inf, logits)
        weights = np.exp(logits - logits.max())
        if self._sampling.min_p > 0:
            weights = np.where(weights < self._sampling.min_p, 0.0, weights)
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
