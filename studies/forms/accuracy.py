"""Accuracy per leaf: what ships against masked decoding and the majority, and the study behind the defaults."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from rich.progress import Progress

from agentform import PriorStore
from agentform.schema.json_text import dumps
from benchmarks.common.bootstrap import difference
from benchmarks.common.datasets import load_items, sampled
from benchmarks.common.harness import Context
from benchmarks.common.items import Item
from studies.forms.engines import BenchEngine
from studies.forms.metrics import accuracy, calibration_error
from studies.forms.shipped import WAYS, Filled, fill_item
from studies.forms.study import record, study_rows

__all__ = ["SEED", "measure_accuracy", "measure_study", "splits"]

SEED = 7
TUNING = {"sgd": 60, "bfcl": 80, "clinc150": 40, "banking77": 40}
"""Items that settings were chosen on; they are never reported on."""
REPORT = {"sgd": 120, "bfcl": 120, "clinc150": 80, "banking77": 80}
_SINGLE_TUNING, _SINGLE_REPORT = 60, 100
_QUICK = 4
STYLES: Mapping[str, tuple[str, ...]] = {
    "purpose": ("key", "anchor", "described", "plain"),
    "options": ("key", "described"),
}
"""Lead-ins by prompt style."""


def splits(context: Context, name: str) -> tuple[list[Item], list[Item]]:
    """Items to choose settings on, and others to report on; the shipped forms are too few to be split."""
    items = sampled(load_items(context, name), len(load_items(context, name)), SEED)
    if context.data is None:
        return items, items
    tuning = TUNING.get(name, _SINGLE_TUNING)
    report = items[tuning : tuning + REPORT.get(name, _SINGLE_REPORT)]
    return items[: _QUICK if context.quick else tuning], report[:_QUICK] if context.quick else report


async def measure_accuracy(
    engine: BenchEngine, context: Context, names: Sequence[str], progress: Progress
) -> dict[str, dict[str, Any]]:
    """Per set: every way's accuracy on the items to report on, paired differences and agreement."""
    found: dict[str, dict[str, Any]] = {}
    for name in names:
        store = PriorStore()
        items = splits(context, name)[1]
        task = progress.add_task(f"{name}: filling", total=len(items))
        filled: list[Filled] = []
        for item in items:
            filled.append(await fill_item(engine, item, store))
            progress.advance(task)
        found[name] = _figures(filled)
    return found


async def measure_study(
    engine: BenchEngine, context: Context, names: Sequence[str], progress: Progress
) -> list[dict[str, Any]]:
    """One row per set, prompt style and lead-in, on the items that settings are chosen on."""
    rows: list[dict[str, Any]] = []
    for name in names:
        items = splits(context, name)[0]
        for prompt, leads in STYLES.items():
            recorded = await record(engine, items, prompt, leads, progress)
            rows += [
                {"set": name, "prompt": prompt, "lead": lead, "items": len(items), "rules": study_rows(recorded[lead])}
                for lead in leads
            ]
    return rows


def _figures(filled: Sequence[Filled]) -> dict[str, Any]:
    right = {way: [item.right(way) for item in filled] for way in WAYS}
    right["majority"] = _majority([item.item for item in filled])
    against = [("raw", way) for way in ("masked_text", "masked_tokens", "masked_whole")]
    against += [("calibrated", way) for way in ("masked_text", "masked_tokens", "masked_whole", "raw", "majority")]
    return {
        "items": len(filled),
        "leaves": sum(len(item.item.fields) for item in filled),
        "accuracy": {way: accuracy(rows) for way, rows in right.items()},
        "differences": {f"{a} - {b}": difference(right[a], right[b], seed=SEED).as_dict() for a, b in against},
        "agreement_with_raw": {way: _agreement(filled, way) for way in WAYS if way.startswith("masked")},
        "calibration_error": {way: _calibration_error(filled, way) for way in ("calibrated", "raw")},
        "mean_legal_mass": sum(sum(i.legal_mass) for i in filled) / max(1, sum(len(i.legal_mass) for i in filled)),
        "right": {way: " ".join(map(_digits, rows)) for way, rows in right.items()},
    }


def _digits(row: Sequence[bool]) -> str:
    return "".join("1" if leaf else "0" for leaf in row)


def _majority(items: Sequence[Item]) -> list[list[bool]]:
    """The most frequent right answer of each leaf of each form, counted on the very items: it knows the labels."""
    counts: dict[tuple[str, str], Counter[str]] = {}
    for item in items:
        for leaf in item.fields:
            counts.setdefault((item.form, leaf.name), Counter()).update(map(dumps, leaf.gold))
    common = {key: count.most_common(1)[0][0] for key, count in counts.items()}
    return [[common[item.form, leaf.name] in map(dumps, leaf.gold) for leaf in item.fields] for item in items]


def _agreement(filled: Sequence[Filled], way: str) -> float:
    pairs = [pair for item in filled for pair in zip(item.taken[way], item.taken["raw"], strict=True)]
    return sum(a == b for a, b in pairs) / len(pairs)


def _calibration_error(filled: Sequence[Filled], way: str) -> float:
    sure = [p for item in filled for p in item.probability[way]]
    return calibration_error(sure, [hit for item in filled for hit in item.right(way)])
