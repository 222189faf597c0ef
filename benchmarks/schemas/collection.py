"""The collection of public schemas through every engine, and what came of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from rich.progress import track

from agentform.cli.tables import Table
from benchmarks.common.bootstrap import quantiles
from benchmarks.common.harness import Context
from benchmarks.schemas.cases import Case, cases, tokenizer_json
from benchmarks.schemas.engines import ENGINES, SAMPLED
from benchmarks.schemas.measure import Grammatical, Whole
from benchmarks.schemas.workers import FORM, Worker

__all__ = ["bars", "run_collection", "show"]

LIMIT_S = 20.0
"""Seconds for one schema in one engine."""
_TURN = 20
"""Cases that an engine measures before the next one has its turn."""


def run_collection(context: Context) -> dict[str, Any]:
    """Measure every case; the engines take turns on a few at a time, so that a busy machine is busy for all."""
    known = cases(context)
    tokenizer = tokenizer_json(context)
    workers = {name: Worker(name, tokenizer, limit_s=LIMIT_S) for name in (*ENGINES, FORM)}
    rows: dict[str, list[Any]] = {name: [] for name in workers}
    for at in track(range(0, len(known), _TURN), "schemas", console=context.console, update_period=2):
        for name, worker in workers.items():
            step = SAMPLED.get(name, 1)
            rows[name] += worker.measure([known[i] for i in range(at, min(at + _TURN, len(known))) if i % step == 0])
    for worker in workers.values():
        worker.close()
    engines = {name: _grammar_figures(known, rows[name]) for name in ENGINES if name not in SAMPLED}
    return {
        "num_schemas": len(known),
        "num_valid": _num_instances(known, True),
        "num_invalid": _num_instances(known, False),
        "limit_s": LIMIT_S,
        "engines": engines,
        "samples": [_sample(known, rows, step) for step in SAMPLED.values()],
        "whole_path": _whole_figures(known, rows["agentform"], rows[FORM]),
    }


def _sample(known: Sequence[Case], rows: Mapping[str, Sequence[Any]], step: int) -> dict[str, Any]:
    """The engines that saw every one of one case in `step`."""
    some = known[::step]
    steps = {name: SAMPLED.get(name, 1) for name in ENGINES}
    seen = {name: rows[name][:: step // own] for name, own in steps.items() if step % own == 0}
    return {
        "num_schemas": len(some),
        "num_valid": _num_instances(some, True),
        "num_invalid": _num_instances(some, False),
        "engines": {name: _grammar_figures(some, found) for name, found in seen.items()},
    }


def _num_instances(known: Sequence[Case], valid: bool) -> int:
    return sum(judged == valid for case in known for _, judged in case.instances)


def _grammar_figures(known: Sequence[Case], rows: Sequence[Grammatical]) -> dict[str, Any]:
    failed = {case.name: row.error for case, row in zip(known, rows, strict=True) if row.error}
    counts = Counter(
        ("valid" if valid else "invalid", taken)
        for case, row in zip(known, rows, strict=True)
        if not row.error
        for (_, valid), taken in zip(case.instances, row.accepted, strict=True)
    )
    compiled = [row for row in rows if not row.error]
    return {
        "not_compiled": len(failed),
        "valid_accepted": counts["valid", True],
        "valid_refused": counts["valid", False],
        "invalid_refused": counts["invalid", False],
        "invalid_accepted": counts["invalid", True],
        "relaxed_schemas": sum(row.relaxed > 0 for row in compiled),
        "compile_s": _times([row.compile_s for row in compiled]),
        "in_place_s": _times([row.in_place_s for row in compiled if row.in_place_s]),
        "first_mask_s": _times([row.first_mask_s for row in compiled]),
        "mask_s": _times([value for row in compiled for value in row.mask_s]),
        "failures": {name: text.splitlines()[0][:120] if text else "" for name, text in failed.items()},
    }


def _whole_figures(known: Sequence[Case], grammar: Sequence[Grammatical], forms: Sequence[Whole]) -> dict[str, Any]:
    counts: Counter[str] = Counter()
    wrong: list[str] = []
    for case, row, form in zip(known, grammar, forms, strict=True):
        if row.error or form.error:
            continue
        for (_, valid), taken, judged, writable in zip(
            case.instances, row.accepted, form.valid, form.writable, strict=True
        ):
            word = "valid" if valid else "invalid"
            counts[f"{word}_accepted"] += taken and judged
            counts[f"{word}_judged_valid"] += judged
            counts[f"{word}_writable"] += writable and judged
            if taken and judged and not valid:
                wrong.append(case.name)
    failures = {case.name: form.error[:160] for case, form in zip(known, forms, strict=True) if form.error}
    loaded = [form.form_s for form in forms if not form.error]
    return {**counts, "not_loaded": len(failures), "failures": failures, "wrong": wrong, "form_s": _times(loaded)}


def _times(values: Sequence[float]) -> dict[str, Any]:
    ordered = [round(value, 7) for value in quantiles(values)]
    if not ordered:
        return {"n": 0}
    half, p95 = ordered[len(ordered) // 2], ordered[-2]
    return {"n": len(values), "median": half, "p95": p95, "max": ordered[-1], "quantiles": ordered}


def bars(figures: Mapping[str, Any]) -> list[tuple[str, bool, str]]:
    """What is asked of agentform, whether it holds, and the figure."""
    engines = figures["engines"]
    own = engines["agentform"]
    share = max(own["not_compiled"], figures["whole_path"]["not_loaded"]) / figures["num_schemas"]
    ratio = own["compile_s"]["median"] / engines["llguidance"]["compile_s"]["median"]
    wrong = figures["whole_path"].get("invalid_accepted", 0)
    return [
        ("at most 0.5% of schemas not compiled", share <= 0.005, f"{share:.2%}"),
        *(_acceptance(item) for item in (figures, *figures["samples"])),
        ("no invalid instance accepted by the whole path", wrong == 0, f"{wrong}"),
        ("median compile within 1.5x of bare llguidance", ratio <= 1.5, f"{ratio:.2f}x"),
    ]


def _acceptance(figures: Mapping[str, Any]) -> tuple[str, bool, str]:
    accepted = {name: item["valid_accepted"] for name, item in figures["engines"].items()}
    own = accepted.pop("agentform")
    best = max(accepted, key=lambda name: accepted[name])
    what = f"valid accepted on {figures['num_schemas']:,}: as many as the better engine"
    return what, own >= accepted[best], f"{own:,} against {accepted[best]:,} ({best})"


def show(context: Context, figures: Mapping[str, Any]) -> None:
    """Print the comparison."""
    context.console.print(_table(figures))
    for sample in figures["samples"]:
        context.console.print(_table(sample))
    whole, own = figures["whole_path"], figures["engines"]["agentform"]
    context.console.print(
        f"with validation, agentform accepts {whole.get('invalid_accepted', 0)} of {figures['num_invalid']:,} invalid, "
        f"{whole.get('valid_accepted', 0):,} of {figures['num_valid']:,} valid instances; "
        f"{whole.get('valid_writable', 0):,} valid ones have a place in the form for all they hold; "
        f"loading a schema {_pair(whole['form_s'], 1e3)} ms, {whole['not_loaded']} not loaded; "
        f"compiling in place {_pair(own['in_place_s'], 1e3)} ms"
    )
    for what, holds, figure in bars(figures):
        context.console.print(f"[{'green' if holds else 'red'}]{'holds' if holds else 'SHORT'}[/] {what}: {figure}")


def _table(figures: Mapping[str, Any]) -> Table:
    title = f"{figures['num_schemas']:,} schemas; times are median / 95th percentile"
    names = ("engine", "not compiled", "valid accepted", "invalid refused", "compile ms", "first mask ms", "mask µs")
    table = Table(*names, title=title)
    for name, item in figures["engines"].items():
        table.add_row(
            name,
            f"{item['not_compiled']:,}",
            f"{item['valid_accepted']:,} / {figures['num_valid']:,}",
            f"{item['invalid_refused']:,} / {figures['num_invalid']:,}",
            _pair(item["compile_s"], 1e3),
            _pair(item["first_mask_s"], 1e3),
            _pair(item["mask_s"], 1e6),
        )
    return table


def _pair(times: Mapping[str, Any], factor: float) -> str:
    return f"{times['median'] * factor:.3g} / {times['p95'] * factor:.3g}" if times["n"] else "-"
