"""Draws a token from some whose log probabilities are known."""

from __future__ import annotations

import math
from collections.abc import Mapping
from random import Random

from agentform.runtime.engine import Sampling

__all__ = ["draw"]

_LEAST_TEMPERATURE = 1e-4


def draw(logprobs: Mapping[int, float], sampling: Sampling, random: Random) -> int:
    """One of the tokens, which are all that may come next; the most probable one at temperature 0."""
    ranked = sorted(logprobs, key=lambda token: (-logprobs[token], token))
    if sampling.temperature == 0:
        return ranked[0]
    ranked = ranked[: sampling.top_k or None]
    best, heat = logprobs[ranked[0]], max(sampling.temperature, _LEAST_TEMPERATURE)
    weights = [math.exp((logprobs[token] - best) / heat) for token in ranked]
    total, before = sum(weights), 0.0
    kept: dict[int, float] = {}
    for token, weight in zip(ranked, weights, strict=True):
        if kept and (before / total >= sampling.top_p or weight < sampling.min_p):
            break
        kept[token] = weight
        before += weight
    return random.choices(list(kept), list(kept.values()))[0]
