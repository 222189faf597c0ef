"""Leaves that must agree: how often they do not, by the way they are decided, and what agreement costs."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.progress import Progress

from agentform import PriorStore, fill
from agentform.decoding.token_context import TokenContext
from agentform.errors import CallRejected
from agentform.messages import JsonValue
from agentform.schema.json_text import dumps
from benchmarks.common.bootstrap import difference
from benchmarks.common.harness import Context
from benchmarks.common.items import Item
from studies.forms.accuracy import SEED
from studies.forms.couplings import Coupling, couplings
from studies.forms.engines import BenchEngine
from studies.forms.masked import decode
from studies.forms.metrics import accuracy

__all__ = ["measure_contradictions"]

_FILLED = {
    "independent": (False, False),
    "declared": (True, False),
    "validator": (False, True),
    "declared_validator": (True, True),
}
"""Whether the dependency is declared, and whether the validator knows the rule."""
WAYS = (*_FILLED, "sequence")
"""sequence: masked decoding of the whole object, where a later leaf sees the earlier ones."""


@dataclass(frozen=True, kw_only=True)
class _Outcome:
    value: dict[str, JsonValue] | None
    """`None` when no form was accepted."""
    seconds: float
    gap: float
    """Log probability given up for agreement."""


async def measure_contradictions(engine: BenchEngine, context: Context, progress: Progress) -> list[dict[str, Any]]:
    """One row per coupling and way."""
    rows: list[dict[str, Any]] = []
    for coupling in couplings(context, quick=context.quick):
        stores = {way: PriorStore() for way in WAYS}
        outcomes: dict[str, list[_Outcome]] = {way: [] for way in WAYS}
        task = progress.add_task(f"contradictions: {coupling.name}", total=len(coupling.items))
        for number, item in enumerate(coupling.items):
            for way in WAYS[number % len(WAYS) :] + WAYS[: number % len(WAYS)]:
                outcomes[way].append(await _outcome(engine, coupling, item, way, stores[way]))
            progress.advance(task)
        rows += [_row(coupling, way, outcomes) for way in WAYS]
    return rows


async def _outcome(engine: BenchEngine, coupling: Coupling, item: Item, way: str, store: PriorStore) -> _Outcome:
    if way == "sequence":
        return await _in_sequence(engine, coupling, item, store)
    declared, checked = _FILLED[way]
    target = coupling.target(item, declared=declared, checked=checked)
    started = time.perf_counter()
    try:
        filled = await fill(engine, item.messages, target, priors=store)
    except CallRejected:
        return _Outcome(value=None, seconds=time.perf_counter() - started, gap=0.0)
    seconds = time.perf_counter() - started
    gaps = [evidence.gap for evidence in filled.evidence if evidence.gap is not None]
    return _Outcome(value=dict(filled.value), seconds=seconds, gap=max(gaps, default=0.0))


async def _in_sequence(engine: BenchEngine, coupling: Coupling, item: Item, store: PriorStore) -> _Outcome:
    engine.scored.clear()
    await fill(engine, item.messages, coupling.target(item, declared=False, checked=False), priors=store)
    request = engine.scored[0]  # the prompt that `fill` scored, already warm
    started = time.perf_counter()
    value, _ = await decode(engine, TokenContext(ids=request.prompt_ids), item)
    return _Outcome(value=value, seconds=time.perf_counter() - started, gap=0.0)


def _row(coupling: Coupling, way: str, outcomes: dict[str, list[_Outcome]]) -> dict[str, Any]:
    own, base = outcomes[way], outcomes["independent"]
    right = {name: [_right(i, o) for i, o in zip(coupling.items, runs, strict=True)] for name, runs in outcomes.items()}
    extra = [1000 * (o.seconds - b.seconds) for o, b in zip(own, base, strict=True)]
    moved = [o.gap for o in own if o.gap]
    return {
        "coupling": coupling.name,
        "way": way,
        "forms": len(own),
        "contradictions": sum(o.value is not None and not coupling.agrees(o.value) for o in own),
        "rejected": sum(o.value is None for o in own),
        "accuracy": accuracy(right[way]),
        "against_independent": difference(right[way], right["independent"], seed=SEED).as_dict(),
        "median_ms": 1000 * statistics.median(o.seconds for o in own),
        "median_extra_ms": statistics.median(extra),
        "mean_extra_ms": statistics.fmean(extra),
        "solved_jointly": len(moved),
        "mean_gap": statistics.fmean(moved) if moved else 0.0,
    }


def _right(item: Item, outcome: _Outcome) -> Sequence[bool]:
    if outcome.value is None:
        return [False] * len(item.fields)
    indices = ([dumps(o) for o in f.options].index(dumps(outcome.value[f.name])) for f in item.fields)
    return [field.is_right(index) for field, index in zip(item.fields, indices, strict=True)]
