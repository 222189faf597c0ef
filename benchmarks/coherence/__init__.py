"""Whether decisions hold together, and whether they are right: JevBench's trials beside labelled sets, one table.

Every way of scoring answers the same questions. Questions are asked as `POST /v1/systemone` asks them: each by itself.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any, TypeAlias

from rich.progress import Progress

from agentform import Scoring, load_engine
from agentform.cli.tables import Table
from agentform.forms.asked import Decision
from agentform.runtime.engine import Engine
from benchmarks.coherence import labelled, trials
from benchmarks.coherence.asking import Asking, at_temperature
from benchmarks.common.harness import Context
from benchmarks.common.parts import last_figures

__all__ = ["WAYS", "add_arguments", "run"]

WAYS: Mapping[str, Mapping[str, Any]] = {
    "as it is": {},
    "no prior": {"calibration": 0.0},
    "own order": {"symmetry": 0},
    "symmetry 256": {"symmetry": 256},
    "symmetry 256, no prior": {"symmetry": 256, "calibration": 0.0},
}
"""By name, what differs from the model's own settings."""
_Rows: TypeAlias = Mapping[str, Sequence[labelled.Labelled]]
_QUICK_CASES, _QUICK_ITEMS = 2, 5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """`--model`, `--engine`, `--cases`, `--items`, `--way`, `--again`."""
    parser.add_argument("--model", default="smollm2-135m", help="figures of other models are kept")
    parser.add_argument("--engine", help="torch or llama_cpp, instead of what suits the machine")
    parser.add_argument("--cases", type=int, help="a fixed random part of the 240 cases; 0: no trials")
    parser.add_argument("--items", type=int, default=30, help="labelled questions of each kind, with --data")
    parser.add_argument("--way", action="append", choices=list(WAYS), help="may be repeated; by default all")
    parser.add_argument("--again", action="store_true", help="ask a question again in every batch that holds it")


def run(context: Context) -> None:
    """Measure every way and write them beside those that were measured before."""
    name, options = context.options["model"], context.options
    engine: Any = load_engine(name, engine=options["engine"], num_threads=1)
    try:
        for way in options["way"] or WAYS:
            rows = _measured(context, engine, way)
            figures = last_figures(context)
            found = {**figures.get(name, {}), **rows}
            context.write({**figures, name: found}, seeds=[trials.SEED, labelled.SEED])
            context.console.print(_table(name, found))
    finally:
        engine.close()


def _measured(context: Context, engine: Engine, way: str) -> dict[str, Any]:
    """One row at the temperature of the model's settings, one at that which fits the labelled questions best."""
    scoring = Scoring(**{**engine.info.scoring, **WAYS[way]})
    num_cases = _QUICK_CASES if context.quick else context.options["cases"]
    with Progress(*Progress.get_default_columns(), "{task.completed}", console=context.console) as progress:
        told = partial(_told, progress, progress.add_task(f"{way}, decisions", total=None))
        ours, theirs = (Asking(engine=engine, scoring=scoring, told=told) for _ in range(2))
        theirs.again = context.options["again"]
        rows = labelled.load(context, _QUICK_ITEMS if context.quick else context.options["items"])
        decided = {kind: labelled.ask(ours, own) for kind, own in rows.items()}
        row = _row(theirs, way, num_cases, rows, decided)
    costs = {"cases": num_cases, "trials_cost": _cost(theirs), "labelled_cost": _cost(ours)}
    found = {way: {"scoring": asdict(scoring), **row, **costs}}
    if rows:
        every = [one for own in rows.values() for one in own], [one for own in decided.values() for one in own]
        fitted = labelled.fitted_temperature(*every)
        heated = {kind: [at_temperature(one, fitted) for one in own] for kind, own in decided.items()}
        told_scoring = {**asdict(scoring), "temperature": fitted * scoring.temperature}
        row = _row(theirs.replayed(fitted), f"{way}, fitted", num_cases, rows, heated)
        found[f"{way}, T fitted"] = {"scoring": told_scoring, **row, **costs}
    return found


def _row(
    asking: Asking, name: str, num_cases: int | None, rows: _Rows, decided: Mapping[str, Sequence[Decision]]
) -> dict[str, Any]:
    coherence = None if num_cases == 0 else trials.measure(asking.answers, name=name, num_cases=num_cases)
    scores = {kind: asdict(labelled.scored(own, decided[kind])) for kind, own in rows.items()}
    return {"coherence": None if coherence is None else asdict(coherence), "labelled": scores}


def _told(progress: Progress, task: Any, done: int) -> None:
    progress.update(task, completed=done)


def _cost(asking: Asking) -> dict[str, Any]:
    count = max(1, asking.decisions)
    return {
        "decisions": asking.decisions,
        "seconds_a_decision": round(asking.seconds / count, 4),
        "tokens_a_decision": round(asking.tokens / count, 1),
    }


def _table(name: str, ways: Mapping[str, Any]) -> Table:
    kinds = list(dict.fromkeys(kind for way in ways.values() for kind in way["labelled"]))
    measured = [way["coherence"] for way in ways.values() if way["coherence"]]
    dimensions = list(dict.fromkeys(key for found in measured for key in found["dimensions"]))
    heads = ("way", "coherence", *dimensions, *kinds, "all right", "log loss", "s a decision", "tokens")
    table = Table(*heads, title=name)
    for way, found in ways.items():
        table.add_row(way, *_cells(found, dimensions, kinds))
    return table


def _cells(found: Mapping[str, Any], dimensions: list[str], kinds: list[str]) -> list[str]:
    coherence = found["coherence"] or {"overall": None, "dimensions": {}}
    scores = [found["labelled"][kind] for kind in kinds if kind in found["labelled"]]
    count = max(1, sum(score["decisions"] for score in scores))
    loss = sum(score["log_loss"] * score["decisions"] for score in scores) / count
    return [
        _percent(coherence["overall"]),
        *(_percent(coherence["dimensions"].get(key)) for key in dimensions),
        *(_percent(_share(found["labelled"].get(kind))) for kind in kinds),
        _percent(sum(score["right"] for score in scores) / count),
        f"{loss:.3f}",
        f"{found['labelled_cost']['seconds_a_decision']:.3f}",
        f"{found['labelled_cost']['tokens_a_decision']:.0f}",
    ]


def _share(score: Mapping[str, Any] | None) -> float | None:
    return None if score is None else score["right"] / score["decisions"]


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f}"
