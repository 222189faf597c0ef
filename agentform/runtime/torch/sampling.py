"""Picks the next token from one row of logits, and reads probabilities from it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from agentform.runtime.engine import Sampling
from agentform.runtime.scheduling.logits import LEAST_TEMPERATURE, check_highest

__all__ = ["TorchSampler", "logprobs"]


class TorchSampler:
    """Implements `agentform.runtime.scheduling.logits.Sampler` over tensors."""

    def __init__(self, sampling: Sampling, device: torch.device) -> None:
        self._sampling = sampling
        self._counts: Counter[int] = Counter()
        self._generator = torch.Generator(device=device)
        self._generator.manual_seed(sampling.seed)

    def pick(self, logits: Tensor, allowed: npt.NDArray[np.bool_] | None = None) -> int:
        """The next token's id; logits `[vocabulary]`, allowed the same shape.

        Raises:
            EngineError: they are NaN.
        """
        token = self._pick(self._penalised(logits), allowed)
        if self._sampling.penalises:
            self._counts[token] += 1
        return token

    def _penalised(self, logits: Tensor) -> Tensor:
        """The logits of tokens that were picked already are lowered."""
        if not self._counts:
            return logits
        ids = torch.tensor(list(self._counts), device=logits.device)
        times = torch.tensor(list(self._counts.values()), device=logits.device, dtype=torch.float32)
        logits = logits.float().clone()
        found, by = logits[ids], self._sampling.repetition_penalty
        found = torch.where(found > 0, found / by, found * by)
        logits[ids] = found - self._sampling.frequency_penalty * times - self._sampling.presence_penalty
        return logits

    def _pick(self, logits: Tensor, allowed: npt.NDArray[np.bool_] | None) -> int:
        if allowed is not None:
            seen = torch.from_numpy(allowed).to(logits.device)
            logits = logits[: len(seen)].masked_fill(~seen, float("-inf"))
        highest, at = logits.float().max(dim=-1)
        check_highest(float(highest))
        if self._sampling.temperature == 0:
            return int(at)
        # The difference first: however low the temperature, the highest stays 0 and the others go to minus infinity.
        return self._draw((logits.float() - highest) / max(self._sampling.temperature, LEAST_TEMPERATURE))

    def _draw(self, logits: Tensor) -> int:
        if 0 < self._sampling.top_k < len(logits):
            logits = logits.masked_fill(logits < logits.topk(self._sampling.top_k).values[-1], float("-inf"))
        if self._sampling.min_p > 0:  # the most probable token's logit is 0 here
            logits = logits.masked_fill(logits < math.log(self._sampling.min_p), float("-inf"))
        if self._sampling.top_p >= 1:
            return int(torch.multinomial(logits.softmax(dim=-1), 1, generator=self._generator))
        probabilities, order = logits.softmax(dim=-1).sort(descending=True)
        before = probabilities.cumsum(dim=-1) - probabilities
        # The first token stays whatever top_p is: nothing stands before it.
        nucleus = probabilities.masked_fill(before >= max(self._sampling.top_p, 1e-9), 0.0)
        return int(order[torch.multinomial(nucleus, 1, generator=self._generator)])


def logprobs(row: Tensor, ids: Sequence[int]) -> list[float]:
    """See `agentform.runtime.scheduling.logits.LogProbs`; row `[vocabulary]`."""
    row = row.float()
    check_highest(float(row.max()))
    return row.log_softmax(dim=-1)[list(ids)].tolist()
