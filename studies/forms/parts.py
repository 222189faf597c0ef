"""The parts of the benchmark, each of which can be run alone; their figures share one result file."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import anyio
from rich.progress import Progress

from benchmarks.common.datasets import SETS
from benchmarks.common.harness import Context
from benchmarks.common.parts import last_figures
from studies.forms.accuracy import SEED, measure_accuracy, measure_study
from studies.forms.bias import measure_bias
from studies.forms.contradictions import measure_contradictions
from studies.forms.engines import BenchEngine
from studies.forms.mistakes import measure_mistakes
from studies.forms.plots import draw
from studies.forms.report import show
from studies.forms.timing import measure_time

__all__ = ["PARTS", "run"]

_Part = Callable[[BenchEngine, Context, Progress], Awaitable[Any]]


def run(context: Context) -> None:
    """Run the parts of `--part`, or all; figures of parts that were not run are kept from the last result."""
    fresh: dict[str, Any] = {}
    for name in context.options.get("part") or PARTS:
        fresh[name] = anyio.run(_measure, PARTS[name], context)
        show(context.console, name, fresh[name])
    figures = fresh if context.quick else last_figures(context) | fresh
    if not context.quick:
        draw(figures, context.results)
    context.write(figures, seeds=[SEED])


async def _measure(part: _Part, context: Context) -> Any:
    engine = BenchEngine.load()
    async with engine:
        with Progress(console=context.console, transient=True) as progress:
            return await part(engine, context, progress)


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
