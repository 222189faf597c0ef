"""The parts of the benchmark, each of which can be run alone; their figures share one result file."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import anyio
from rich.progress import Progress

from benchmarks.forms.accuracy import SEED, measure_accuracy, measure_study
from benchmarks.forms.bias import measure_bias
from benchmarks.forms.contradictions import measure_contradictions
from benchmarks.forms.datasets import SETS
from benchmarks.forms.engines import BenchEngine
from benchmarks.forms.mistakes import measure_mistakes
from benchmarks.forms.plots import draw
from benchmarks.forms.report import show
from benchmarks.forms.timing import measure_time
from benchmarks.harness import RESULTS, Context

__all__ = ["PARTS", "run"]

_Part = Callable[[BenchEngine, Context, Progress], Awaitable[Any]]


def run(context: Context, parts: Sequence[str] = ()) -> None:
    """Run the parts named, or all; figures of parts that were not run are kept from the last result."""
    fresh: dict[str, Any] = {}
    for name in parts or PARTS:
        fresh[name] = anyio.run(_measure, PARTS[name], context)
        show(context.console, name, fresh[name])
    figures = fresh if context.quick else _last(context) | fresh
    if not context.quick:
        draw(figures, RESULTS)
    context.write(figures, seeds=[SEED])


async def _measure(part: _Part, context: Context) -> Any:
    engine = BenchEngine.load()
    async with engine:
        with Progress(console=context.console, transient=True) as progress:
            return await part(engine, context, progress)


def _last(context: Context) -> dict[str, Any]:
    try:
        return json.loads((RESULTS / f"{context.name}.json").read_text(encoding="utf-8"))["figures"]
    except (FileNotFoundError, ValueError, KeyError):
        return {}


def _sets(context: Context) -> list[str]:
    return list(SETS) if context.data is not None else ["shipped"]


async def _accuracy(engine: BenchEngine, context: Context, progress: Progress) -> Any:
    return await measure_accuracy(engine, context, _sets(context), progress)


async def _study(engine: BenchEngine, context: Context, progress: Progress) -> Any:
    return await measure_study(engine, context, _sets(context), progress)


async def _time(engine: BenchEngine, context: Context, progress: Progress) -> Any:
    return await measure_time(engine, rounds=1 if context.quick else 5, progress=progress)


PARTS: Mapping[str, _Part] = {
    "accuracy": _accuracy,
    "study": _study,
    "time": _time,
    "contradictions": measure_contradictions,
    "bias": measure_bias,
    "mistakes": measure_mistakes,
}
