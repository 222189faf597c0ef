"""Contexts with pairs to remember among noise, and questions about them at the end; no words, only token ids.

::

    BOS  noise … KEY VALUE … noise … KEY VALUE … noise   ASK KEY VALUE   ASK KEY VALUE …
         context: pairs at random places                 questions, each with its answer

Noise has topics: for some dozens of tokens it draws from eight of its tokens, so a short memory predicts it. It holds
stray keys and values as well, which belong to nothing. A key stands in at most one pair.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["ASK", "BOS", "KEYS", "NOISE", "VALUES", "VOCABULARY", "Batch", "draw", "needle", "noise"]

BOS, ASK = 0, 1
KEYS = range(8, 72)
VALUES = range(72, 136)
NOISE = range(136, 256)
VOCABULARY = 256
_TOPIC_WORDS = 8
_TOPIC_TOKENS = 48
"""Mean length of a topic; lengths are geometric."""
_STRAY = 0.03
"""Share of noise that is a key or a value on its own."""


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Contexts of one length with the same number of questions each."""

    context: NDArray[np.int64]
    """`[batch, tokens]`"""
    asked: NDArray[np.int64]
    """Keys asked for, `[batch, questions]`, in the order asked."""
    answers: NDArray[np.int64]
    """Their values, `[batch, questions]`."""
    depths: NDArray[np.int64]
    """Where in the context each answer stands, `[batch, questions]`."""

    def sequences(self) -> NDArray[np.int64]:
        """Contexts with questions and answers behind, `[batch, tokens + 3 * questions]`."""
        asks = np.full_like(self.asked, ASK)
        tail = np.stack([asks, self.asked, self.answers], axis=-1).reshape(len(self.asked), -1)
        return np.concatenate([self.context, tail], axis=1)

    def answer_places(self) -> NDArray[np.int64]:
        """Places in `sequences()` whose next token is an answer, `[questions]`."""
        return self.context.shape[1] + 3 * np.arange(self.asked.shape[1]) + 1


def draw(rng: np.random.Generator, *, batch: int, tokens: int, pairs: int, questions: int, tail: int = 0) -> Batch:
    """Contexts of `tokens` tokens that hold `pairs` pairs each; `questions` of them are asked, in any order.

    The last `tail` tokens are noise.
    """
    slots = rng.random((batch, tokens - tail - 1 - pairs)).argpartition(pairs - 1, axis=1)[:, :pairs]
    places = 1 + np.sort(slots, axis=1) + np.arange(pairs)  # of the keys; two tokens each, never overlapping
    return _write(rng, tokens, places, questions)


def needle(rng: np.random.Generator, *, batch: int, tokens: int, depth: float) -> Batch:
    """One pair at `depth` of the context, 0 its start and 1 its end, and one question."""
    return _write(rng, tokens, np.full((batch, 1), 1 + round(depth * (tokens - 3))), 1)


def noise(rng: np.random.Generator, *, batch: int, tokens: int) -> NDArray[np.int64]:
    """Noise alone, `[batch, tokens]`."""
    topic = np.cumsum(rng.random((batch, tokens)) < 1 / _TOPIC_TOKENS, axis=1)
    words = rng.integers(NOISE.start, NOISE.stop, (batch, topic.max() + 1, _TOPIC_WORDS))
    drawn = words[np.arange(batch)[:, None], topic, rng.integers(0, _TOPIC_WORDS, (batch, tokens))]
    stray = rng.random((batch, tokens)) < _STRAY
    drawn[stray] = rng.integers(KEYS.start, VALUES.stop, int(stray.sum()))
    # A stray value never stands behind a key: that would be a pair.
    pair = _is_in(drawn[:, :-1], KEYS) & _is_in(drawn[:, 1:], VALUES)
    drawn[:, 1:][pair] = NOISE.start
    return drawn


def _write(rng: np.random.Generator, tokens: int, places: NDArray[np.int64], questions: int) -> Batch:
    batch, pairs = places.shape
    rows = np.arange(batch)[:, None]
    context = noise(rng, batch=batch, tokens=tokens)
    keys = rng.permuted(np.tile(np.arange(KEYS.start, KEYS.stop), (batch, 1)), axis=1)[:, :pairs]
    values = rng.integers(VALUES.start, VALUES.stop, (batch, pairs))
    context[:, 0] = BOS
    context[rows, places], context[rows, places + 1] = keys, values
    chosen = rng.permuted(np.tile(np.arange(pairs), (batch, 1)), axis=1)[:, :questions]
    return Batch(
        context=context, asked=keys[rows, chosen], answers=values[rows, chosen], depths=places[rows, chosen] + 1
    )


def _is_in(ids: NDArray[np.int64], kind: range) -> NDArray[np.bool_]:
    return (ids >= kind.start) & (ids < kind.stop)
