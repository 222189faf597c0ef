"""Seconds a row: a loop of `fill`, eight `fill` at once by hand, and `fill_many` with its defaults."""

from __future__ import annotations

import functools
import statistics
import time
from collections.abc import Awaitable, Callable
from typing import Any, Literal

import anyio
from pydantic import BaseModel

from agentform import Engine, fill, fill_many
from agentform._util.gather import at_once
from agentform.cli.tables import Table
from benchmarks.common.harness import Context
from benchmarks.common.models import engine_of

__all__ = ["run"]

_MODEL = "smollm2-135m"
_GROUP = 8
_BAR = 1.1
"""What `fill_many` may take against the group by hand."""
_ABOUT = ("The parcel", "My invoice", "The lamp", "Your app", "The refund", "A bulb", "My account", "The order")
_SAID = ("is late again", "looks wrong", "broke on day one", "works like a charm", "never came", "is a delight")


class Ticket(BaseModel):
    """A support ticket."""

    category: Literal["billing", "delivery", "technical", "account"]
    mood: Literal["angry", "neutral", "happy"]
    urgent: bool


def run(context: Context) -> None:
    """Rounds of all three by turns, each with texts of its own; medians, and the ratio to the group by hand."""
    rounds, num = (1, _GROUP) if context.quick else (5, 4 * _GROUP)
    with engine_of(_MODEL) as engine:
        seconds = anyio.run(_measure, engine, rounds, num)
    middle = {way: statistics.median(each) for way, each in seconds.items()}
    table = Table("way", "s a row", "against eight by hand")
    for way, each in middle.items():
        table.add_row(way, f"{each:.3f}", f"{each / middle['group']:.2f}")
    context.console.print(table)
    ratio = middle["fill_many"] / middle["group"]
    context.write({"bar": _BAR, "rows": num, "seconds_a_row": seconds, "fill_many_against_group": ratio})


async def _measure(engine: Engine, rounds: int, num: int) -> dict[str, list[float]]:
    ways: dict[str, Callable[[Engine, list[str]], Awaitable[Any]]] = {
        "loop": _loop,
        "group": _group,
        "fill_many": lambda engine, texts: fill_many(engine, texts, Ticket),
    }
    await _loop(engine, _texts(0, 2))  # priors and the form's own prompt are known from here on
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    for number in range(rounds * len(ways)):
        way = list(ways)[number % len(ways)]
        texts = _texts(number + 1, num)
        started = time.perf_counter()
        await ways[way](engine, texts)
        seconds[way].append((time.perf_counter() - started) / num)
    return seconds


def _texts(seed: int, num: int) -> list[str]:
    return [f"Case {seed}-{at}: {_ABOUT[at % len(_ABOUT)]} {_SAID[(at + seed) % len(_SAID)]}." for at in range(num)]


async def _loop(engine: Engine, texts: list[str]) -> None:
    for text in texts:
        await fill(engine, text, Ticket)


async def _group(engine: Engine, texts: list[str]) -> None:
    for at in range(0, len(texts), _GROUP):
        await at_once([functools.partial(fill, engine, text, Ticket) for text in texts[at : at + _GROUP]])
