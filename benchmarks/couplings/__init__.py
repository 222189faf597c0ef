"""What the coupling probe names: pairs that a rule couples, and pairs that are independent by construction."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

import anyio
from rich.progress import Progress, TaskID

from agentform import Engine, load_engine
from agentform.cli.tables import Table
from agentform.forms.coupling import Coupling, missing, probe
from benchmarks.common.harness import Context
from benchmarks.common.parts import add_parts, last_figures
from benchmarks.couplings.collection import FORMS, SEED, CoupledForm
from benchmarks.couplings.public_sets import PUBLIC, public_forms

__all__ = ["add_arguments", "run"]

_MODELS = ("smollm2-135m", "qwen2.5-coder-0.5b", "qwen2.5-coder-1.5b")
_EXAMPLES = 8
_FEW = 6
"""Examples of forms with very many options, and of all in a quick run."""
_MANY_OPTIONS = 50


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """`--model` and `--form`; the figures of models and forms that are not run are kept."""
    add_parts(parser, "--model", _MODELS)
    add_parts(parser, "--form", [*(form.name for form in FORMS), *PUBLIC])


def run(context: Context) -> None:
    """Probe every form with every model; with --data also two forms over public sets."""
    every = (*FORMS, *(public_forms(context) if context.data is not None else ()))
    forms = [form for form in every if form.name in (context.options.get("form") or [one.name for one in every])]
    for model in context.options.get("model") or _MODELS[:2]:
        engine: Any = load_engine(model, num_threads=1)
        try:
            rows = anyio.run(_measure, engine, forms[:2] if context.quick else forms, context)
        finally:
            engine.close()
        _show(context, model, rows)
        last = last_figures(context)
        kept = {**last.get(model, {}).get("forms", {}), **{row["form"]: row for row in rows}}
        figures = {"summary": _summary(list(kept.values())), "forms": kept}
        context.write({**last, model: figures}, seeds=[SEED])


async def _measure(engine: Engine, forms: Sequence[CoupledForm], context: Context) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    with Progress(console=context.console, transient=True) as progress:
        for form in forms:
            texts = form.examples(_count(form, context))
            advance = partial(_advance, progress, progress.add_task(form.name, total=len(texts)))
            started = time.perf_counter()
            found = await probe(engine, form.target(), texts, on_progress=advance)
            seconds = (time.perf_counter() - started) / len(texts)
            rows.append({**_row(form, found), "texts": len(texts), "seconds_a_text": round(seconds, 2)})
    return rows


def _advance(progress: Progress, task: TaskID, done: int, of: int) -> None:
    progress.update(task, completed=done, total=of)


def _count(form: CoupledForm, context: Context) -> int:
    many = max(map(len, form.options.values())) > _MANY_OPTIONS
    return _FEW if many or context.quick else _EXAMPLES


def _row(form: CoupledForm, found: Sequence[Coupling]) -> dict[str, Any]:
    named = {frozenset((one.parent, one.child)) for one in found if one.coupled}
    return {
        "form": form.name,
        "held_out": form.held_out,
        "found": _names(named & form.coupled),
        "missed": _names(form.coupled - named),
        "named_though_independent": _names(named - form.coupled - form.undecided),
        "independent": len(form.pairs) - len(form.coupled) - len(form.undecided),
        "to_declare": [f"{one.parent} -> {one.child}" for one in missing(found)],
        "measured": [_rounded(asdict(one)) for one in found],
    }


def _names(pairs: frozenset[frozenset[str]] | set[frozenset[str]]) -> list[str]:
    return sorted(" - ".join(sorted(pair)) for pair in pairs)


def _rounded(row: dict[str, Any]) -> dict[str, Any]:
    return {key: round(value, 4) if isinstance(value, float) else value for key, value in row.items()}


def _summary(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {
        part: {
            "coupled": sum(len(row["found"]) + len(row["missed"]) for row in own),
            "found": sum(len(row["found"]) for row in own),
            "independent": sum(row["independent"] for row in own),
            "named_though_independent": sum(len(row["named_though_independent"]) for row in own),
        }
        for part, own in _parts(rows)
    }


def _parts(rows: Sequence[dict[str, Any]]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    yield "chosen_on", [row for row in rows if not row["held_out"]]
    yield "held_out", [row for row in rows if row["held_out"]]


def _show(context: Context, model: str, rows: Sequence[dict[str, Any]]) -> None:
    table = Table("form", "found", "missed", "named though independent", "of", title=model)
    for row in rows:
        cells = ("; ".join(row[key]) for key in ("found", "missed", "named_though_independent"))
        table.add_row(row["form"] + " (held out)" * row["held_out"], *cells, str(row["independent"]))
    context.console.print(table)
