"""Time against the number of closed fields: scoring the form, and writing it with and without forced tokens."""

from __future__ import annotations

import statistics
import time
from collections.abc import Awaitable, Callable
from typing import Any

from rich.progress import Progress

from agentform import PriorStore, fill
from agentform.decoding.token_context import TokenContext
from agentform.messages import Usage
from agentform.runtime.engine import Branch, ScoreRequest
from benchmarks.common.items import Item
from benchmarks.common.timing_form import timing_item
from studies.forms.engines import BenchEngine
from studies.forms.masked import decode
from studies.forms.prompts import context_of

__all__ = ["FIELDS", "PROMPT_TOKENS", "measure_time"]

FIELDS = (1, 3, 6, 9, 12)
PROMPT_TOKENS = (500, 2000)
_STORE = PriorStore()
"""Priors of the timed forms: measured once, before the clock starts."""
_Way = Callable[[BenchEngine, TokenContext, Item], Awaitable[Usage]]
_Taken = dict[str, list[tuple[float, Usage]]]
"""Seconds and usage of every round, by way."""


async def measure_time(
    engine: BenchEngine, *, rounds: int, progress: Progress, fields: tuple[int, ...] = FIELDS
) -> list[dict[str, Any]]:
    """One row per prompt length, number of fields, and cold or warm: median seconds per way, and ratios.

    Within a round the ways follow one another on the same form; the first of them moves on with every round.
    """
    rows: list[dict[str, Any]] = []
    task = progress.add_task("time", total=len(PROMPT_TOKENS) * 2)
    await _compile(engine, fields)
    for tokens in PROMPT_TOKENS:
        for warm in (False, True):
            taken = await _rounds(engine, tokens, warm, rounds, fields)
            progress.advance(task)
            rows += [_row(tokens, warm, count, taken[count]) for count in fields]
    return rows


async def _rounds(
    engine: BenchEngine, tokens: int, warm: bool, rounds: int, fields: tuple[int, ...]
) -> dict[int, _Taken]:
    taken: dict[int, _Taken] = {n: {way: [] for way in _WAYS} for n in fields}
    names = list(_WAYS)
    for number in range(rounds):
        for count in fields:
            for way in names[number % len(names) :] + names[: number % len(names)]:
                nonce = f"{number}-{count}-{tokens}" + ("" if warm else f"-{way}-cold")
                item = timing_item(engine.tokenizer, count, tokens, nonce)
                taken[count][way].append(await _timed(engine, item, way, warm))
    return taken


async def _compile(engine: BenchEngine, fields: tuple[int, ...]) -> None:
    """Run every way once, so that no grammar is compiled while the clock runs."""
    for count in fields:
        item = timing_item(engine.tokenizer, count, 60, "compile")
        for way in _WAYS:
            await _timed(engine, item, way, warm=False)


async def _timed(engine: BenchEngine, item: Item, way: str, warm: bool) -> tuple[float, Usage]:
    context = context_of(engine.tokenizer, item, "purpose")
    assert item.target.form.root  # compiled before the clock starts
    if warm:
        await engine.score(ScoreRequest(prompt_ids=context.ids, branches=(Branch(path=(), candidates=(0,)),)))
    started = time.perf_counter()
    usage = await _WAYS[way](engine, context, item)
    return time.perf_counter() - started, usage


async def _score(engine: BenchEngine, context: TokenContext, item: Item) -> Usage:
    engine.scored.clear()
    filled = await fill(engine, item.messages, item.target, priors=_STORE)
    assert filled.usage.completion_tokens == 0, "a closed form was not scored alone"
    assert engine.scored[0].prompt_ids == context.ids, "writing does not start from the prompt that was scored"
    return filled.usage


async def _skip(engine: BenchEngine, context: TokenContext, item: Item) -> Usage:
    engine.skip_forced = True
    return (await decode(engine, context, item))[1]


async def _plain(engine: BenchEngine, context: TokenContext, item: Item) -> Usage:
    engine.skip_forced = False
    try:
        return (await decode(engine, context, item))[1]
    finally:
        engine.skip_forced = True


_WAYS: dict[str, _Way] = {"score": _score, "skip": _skip, "plain": _plain}
"""score: the whole form filled by scoring. skip: masked decoding, forced tokens not sampled. plain: all sampled."""


def _row(tokens: int, warm: bool, count: int, taken: _Taken) -> dict[str, Any]:
    return {
        "prompt_tokens": tokens,
        "warm": warm,
        "fields": count,
        "median_s": _medians(taken, lambda seconds, _: seconds),
        "all_s": {way: [seconds for seconds, _ in runs] for way, runs in taken.items()},
        "completion_tokens": _medians(taken, lambda _, usage: usage.completion_tokens),
        "computed_tokens": _medians(taken, lambda _, usage: usage.computed_tokens or 0),
        "skip_over_score": _ratio(taken, "skip"),
        "plain_over_score": _ratio(taken, "plain"),
    }


def _medians(taken: _Taken, figure: Callable[[float, Usage], float]) -> dict[str, float]:
    return {way: statistics.median(figure(*run) for run in runs) for way, runs in taken.items()}


def _ratio(taken: _Taken, way: str) -> float:
    """Median over rounds of the ratio within the round: what slows the machine down slows both."""
    return statistics.median(a / b for (a, _), (b, _) in zip(taken[way], taken["score"], strict=True))
