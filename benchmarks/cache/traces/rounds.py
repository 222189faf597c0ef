"""Conversations that all come back, in sequence, in random order, or some far more often than others."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from typing import Literal

from agentform.runtime.scheduling.replay import TracedRequest
from benchmarks.cache.traces.sessions import AGENT_BLOCK

__all__ = ["Order", "rounds"]

Order = Literal["in sequence", "random", "Zipf"]
_PAUSE_S = 1.0
_NAMES = 1_000_000


def rounds(num: int, order: Order, *, passes: int, blocks: int = 64, seed: int = 0) -> list[TracedRequest]:
    """`num` conversations of `blocks` blocks, each a block longer whenever it comes back; one request a second."""
    lengths = [blocks] * num
    asks: list[TracedRequest] = []
    for at, number in enumerate(itertools.chain.from_iterable(_passes(num, order, passes, random.Random(seed)))):
        start, length = at * _PAUSE_S, lengths[number]
        lengths[number] += 1
        asks.append(
            TracedRequest(
                conversation=str(number),
                start_s=start,
                end_s=start + _PAUSE_S / 2,
                num_prompt=length * AGENT_BLOCK + 1,
                prompt=tuple(range(number * _NAMES, number * _NAMES + length)),
                written=(),
            )
        )
    return asks


def _passes(num: int, order: Order, passes: int, draw: random.Random) -> list[Sequence[int]]:
    """In the first pass all are new."""
    everyone = range(num)
    if order == "random":
        return [everyone, *(draw.sample(everyone, num) for _ in range(passes - 1))]
    if order == "Zipf":
        weights = [1 / (each + 1) for each in everyone]
        return [everyone, *(draw.choices(everyone, weights, k=num) for _ in range(passes - 1))]
    return [everyone] * passes
