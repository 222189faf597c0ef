"""Tokens per second of eight conversations at once against one alone."""

from __future__ import annotations

import itertools
import statistics
import time
from typing import Any

import anyio

from agentform.cli.tables import Table
from agentform.runtime.engine import Engine, GenerateRequest
from benchmarks.common.harness import Context
from benchmarks.common.models import MODELS, engine_of

__all__ = ["run"]

_AT_ONCE = 8
_BAR = 3.0
_ROUNDS = 5
_TURNS = 3
_COMPLETION_TOKENS = 48
_TOPICS = (
    "a lighthouse",
    "two brothers",
    "the last train",
    "a market in spring",
    "snow",
    "an old map",
    "bread",
    "a fox",
)


def run(context: Context) -> None:
    """Rounds of one and of eight by turns, each with texts of its own; medians."""
    rounds = 1 if context.quick else _ROUNDS
    figures: dict[str, Any] = {"at_once": _AT_ONCE, "bar": _BAR, "models": {}}
    table = Table("model", "one, tokens/s", f"{_AT_ONCE} at once", "ratio")
    for name in MODELS:
        with engine_of(name) as engine:
            alone, together = anyio.run(_measure, engine, rounds)
        ratio = statistics.median(together) / statistics.median(alone)
        figures["models"][name] = {"about": MODELS[name], "one": alone, "at_once": together, "ratio": ratio}
        table.add_row(name, f"{statistics.median(alone):.1f}", f"{statistics.median(together):.1f}", f"{ratio:.2f}")
    context.console.print(table)
    context.write(figures)


async def _measure(engine: Engine, rounds: int) -> tuple[list[float], list[float]]:
    """Tokens per second, one and several by turns; what runs first is not counted."""
    texts = itertools.count()
    await _tokens_per_s(engine, 1, texts)
    await _tokens_per_s(engine, _AT_ONCE, texts)
    alone: list[float] = []
    together: list[float] = []
    for _ in range(rounds):
        alone.append(await _tokens_per_s(engine, 1, texts))
        together.append(await _tokens_per_s(engine, _AT_ONCE, texts))
    return alone, together


async def _tokens_per_s(engine: Engine, num: int, texts: itertools.count[int]) -> float:
    written: list[int] = []
    started = time.perf_counter()
    async with anyio.create_task_group() as group:
        for _ in range(num):
            group.start_soon(_converse, engine, next(texts), written)
    return sum(written) / (time.perf_counter() - started)


async def _converse(engine: Engine, number: int, written: list[int]) -> None:
    """A few turns; every turn's prompt is the one before, what was written, and a new message."""
    topic = _TOPICS[number % len(_TOPICS)]
    ids: tuple[int, ...] = ()
    for turn in range(_TURNS):
        ids += engine.tokenizer.encode(f"\n\nText {number}, part {turn}. A long story about {topic}, for children:\n")
        request = GenerateRequest(prompt_ids=ids, max_tokens=_COMPLETION_TOKENS, conversation=f"text {number}")
        async for chunk in engine.generate(request):
            ids += chunk.token_ids
            if chunk.usage is not None:
                written.append(chunk.usage.completion_tokens)
