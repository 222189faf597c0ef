"""The parts of the benchmark, each of which can be run alone; their figures share one result file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from benchmarks.common.harness import PLOTS, Context
from benchmarks.common.parts import last_figures
from studies.recall.models import MODELS, folder_of
from studies.snapshots import capacity, chains, forms, passes, quality, refresh, schemes
from studies.snapshots.lab import Lab
from studies.snapshots.plots import draw
from studies.snapshots.quality import TAIL, Cell
from studies.snapshots.tables import show

__all__ = ["PARTS", "SEED", "run"]

SEED = 7
_LONG_SEED = 0
_Part = Callable[[bool, Sequence[str]], Any]
_QUICK_CELL = Cell(tokens=512, pairs=9, contexts=4)


def run(context: Context) -> None:
    """Run the parts of `--part`, or all; figures of what was not run are kept from the last result."""
    models = context.options.get("model") or tuple(MODELS)
    for name in context.options.get("part") or PARTS:
        fresh = PARTS[name](context.quick, models)
        figures = {} if context.quick else last_figures(context)
        figures[name] = {**figures.get(name, {}), **_rounded(fresh)}
        show(context.console, name, fresh)
        context.write(figures, seeds=[SEED])  # a part takes long: what is done is kept when a later one is stopped
        if not context.quick:
            draw(figures, PLOTS)


def _rounded(figures: Any) -> Any:
    """Six digits behind the point: there are thousands of figures."""
    if isinstance(figures, dict):
        return {key: _rounded(each) for key, each in figures.items()}
    if isinstance(figures, list):
        return [_rounded(each) for each in figures]
    return round(figures, 6) if isinstance(figures, float) else figures


def _by_model(models: Sequence[str], measure: Callable[[Lab], Any], most_tokens: int) -> dict[str, Any]:
    return {name: measure(Lab(folder_of(name), most_tokens=most_tokens)) for name in models}


def _quality(quick: bool, models: Sequence[str]) -> Any:
    cells = (_QUICK_CELL,) if quick else quality.GRID
    longest = max(cell.tokens for cell in cells) - TAIL

    def measure(lab: Lab) -> dict[str, Any]:
        sizes = {"exact_bytes": lab.exact_bytes, "conv_bytes": lab.conv_bytes}
        return {**sizes, "rows": quality.measure(lab, cells, seed=SEED)}

    return _by_model(models, measure, longest)


def _schemes(quick: bool, models: Sequence[str]) -> Any:
    cell = _QUICK_CELL if quick else Cell(tokens=1024, pairs=16, contexts=32)
    return _by_model(models, lambda lab: schemes.measure(lab, cell, seed=SEED), cell.tokens - TAIL)


def _forms(quick: bool, models: Sequence[str]) -> Any:
    cell = _QUICK_CELL if quick else Cell(tokens=4096, pairs=16, contexts=48)
    return _by_model(models, lambda lab: forms.measure(lab, cell, seed=SEED), cell.tokens - TAIL)


def _refresh(quick: bool, models: Sequence[str]) -> Any:
    cell = _QUICK_CELL if quick else Cell(tokens=4096, pairs=16, contexts=20)
    return _by_model(models, lambda lab: refresh.measure(lab, cell, seed=SEED), cell.tokens - TAIL)


def _chains(quick: bool, models: Sequence[str]) -> Any:
    tokens, pairs, num, links = (256, 4, 2, 5) if quick else (2048, 16, 16, chains.LINKS)
    return _by_model(
        models, lambda lab: chains.measure(lab, tokens=tokens, pairs=pairs, num=num, links=links, seed=SEED), tokens
    )


def _capacity(quick: bool, models: Sequence[str]) -> Any:
    numbers = capacity.CLIFF[:2] if quick else capacity.CLIFF
    return {
        "sizes": [
            {"way": s.name, "bytes": s.num_bytes, "ratio": s.ratio, "state_ratio": s.state_ratio}
            for s in capacity.sizes()
        ],
        "passes": [] if quick else capacity.measure(seed=SEED),
        "cliff": capacity.cliff({"sequential": False, "random": True}, numbers=numbers, seed=SEED),
    }


def _passes(quick: bool, models: Sequence[str]) -> Any:
    folder = folder_of("gdn")
    many = (
        {"conversations": 8, "tokens": 64, "slots": 4} if quick else {"conversations": 400, "tokens": 256, "slots": 256}
    )
    return {
        "engine": passes.measure(folder, **many, seed=SEED),
        "one": passes.one_conversation(folder, tokens=128 if quick else 4096, num=3 if quick else 15, seed=SEED),
    }


def _long_passes(quick: bool, models: Sequence[str]) -> Any:
    """About an hour of CPU: most of it is four first passes and one second pass in which nothing is found."""
    size = {"conversations": 6, "tokens": 128} if quick else {"conversations": 500, "tokens": 4096}
    few, more = (3, 5) if quick else (256, 384)
    return {
        name: {**passes.measure(folder_of("gdn"), **size, slots=slots, seed=_LONG_SEED, names=ways), "seed": _LONG_SEED}
        for name, slots, ways in (("engine", few, passes.WAYS), ("roomier", more, ("exact", "both")))
    }


PARTS: Mapping[str, _Part] = {
    "schemes": _schemes,
    "quality": _quality,
    "refresh": _refresh,
    "forms": _forms,
    "chains": _chains,
    "capacity": _capacity,
    "passes": _passes,
    "long_passes": _long_passes,
}
