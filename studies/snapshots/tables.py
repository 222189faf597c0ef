"""The parts' figures as tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from rich.console import Console

from agentform.cli.tables import Table
from benchmarks.common.tables import change, figures_table

__all__ = ["show"]


def show(console: Console, part: str, figures: Any) -> None:
    """Print one part's tables."""
    for table in _TABLES[part](figures):
        console.print(table)


def _quality(figures: Mapping[str, Any]) -> Iterator[Table]:
    for model, found in figures.items():
        cells = sorted({(row["tokens"], row["pairs"]) for row in found["rows"]})
        for tokens, pairs in cells:
            rows = [row for row in found["rows"] if (row["tokens"], row["pairs"]) == (tokens, pairs)]
            rows.sort(key=lambda row: (row["way"], -row["bytes"]))
            live = rows[0]["live_recall"]
            title = f"{model}, {pairs} keys in {tokens:,} tokens: recall of the live state {100 * live:.1f}"
            columns = ["way", "bytes", "states ÷", "recall", "− live", "logit error", "noise error", "ours − this"]
            yield figures_table(title, columns, [_quality_row(row) for row in rows])


def _quality_row(row: Mapping[str, Any]) -> list[object]:
    ours = row.get("ours_minus_this")
    return [
        row["way"],
        f"{row['bytes']:,}",
        f"{row['state_ratio']:.1f}",
        f"{100 * row['recall']:.1f}",
        change(row["minus_live"]),
        f"{row['logit_error']:.3f}",
        f"{row['text_error']:.3f}",
        change(ours) if ours else "",
    ]


def _schemes(figures: Mapping[str, Any]) -> Iterator[Table]:
    for model, rows in figures.items():
        lines = [
            [row["scheme"], *(f"{row[name]:.5f}" for name in ("lost_energy", "logit_error", "text_error"))]
            for row in rows
        ]
        yield figures_table(
            f"{model}: ways to quantise a row", ["scheme", "energy lost", "logit error", "noise error"], lines
        )


def _refresh(figures: Mapping[str, Any]) -> Iterator[Table]:
    for model, rows in figures.items():
        columns = ["heads kept, int8", "run again", "reach", "recall", "− none run again", "logit error", "noise error"]
        lines = [
            [
                f"{row['kept']:.0%}",
                row["window"],
                "all" if row["reach"] is None else f"{row['reach']:g}x",
                f"{100 * row['recall']:.1f}",
                change(row["minus_none"]),
                f"{row['logit_error']:.3f}",
                f"{row['text_error']:.3f}",
            ]
            for row in rows
        ]
        yield figures_table(f"{model}: tokens run again after a restore", columns, lines)


def _forms(figures: Mapping[str, Any]) -> Iterator[Table]:
    for model, rows in figures.items():
        columns = ["start", "later", "fields", "parallel", "in turn", "parallel − in turn", "parallel − live"]
        columns += ["error, parallel", "error, in turn"]
        yield figures_table(f"{model}: forms", columns, [_forms_row(row) for row in rows])


def _forms_row(row: Mapping[str, Any]) -> list[object]:
    return [
        row["start"],
        row["later"],
        row["fields"],
        f"{100 * row['parallel']:.1f}",
        f"{100 * row['in_turn']:.1f}",
        change(row["forking"]),
        change(row["state"]),
        f"{row['parallel_error']:.3f}",
        f"{row['in_turn_error']:.3f}",
    ]


def _chains(figures: Mapping[str, Any]) -> Iterator[Table]:
    for model, found in figures.items():
        links = [link for link in (1, 10, 20, 30, 40, 50) if link <= len(found["recall"]["live"])]
        rows = [
            [
                name,
                *(f"{errors[link - 1]:.3f}" for link in links),
                f"{found['growth'][name]['ratio']:.2f} [{found['growth'][name]['low']:.2f}, "
                f"{found['growth'][name]['high']:.2f}]",
                f"{100 * found['recall'][name][-1]:.1f}",
            ]
            for name, errors in found["logit_error"].items()
        ]
        live = 100 * found["recall"]["live"][-1]
        title = f"{model}: logit error after so many restores; recall of the live state at the end {live:.1f}"
        yield figures_table(title, ["codec", *map(str, links), "last fifth ÷ second", "recall at the end"], rows)


def _capacity(figures: Mapping[str, Any]) -> Iterator[Table]:
    sizes = [[s["way"], f"{s['bytes']:,}", f"{s['ratio']:.2f}", f"{s['state_ratio']:.2f}"] for s in figures["sizes"]]
    yield figures_table("A snapshot of Qwen3-Next's size", ["way", "bytes", "÷", "states ÷"], sizes)
    passes = [
        [row["budget"], row["way"], row["conversations_held"], f"{row['sequential']:.3f}", f"{row['random']:.3f}"]
        for row in figures["passes"]
    ]
    yield figures_table(
        "500 conversations, second pass: hit rate", ["budget for", "way", "held", "sequential", "random"], passes
    )
    numbers = sorted({row["conversations"] for row in figures["cliff"]})
    names = list(dict.fromkeys((row["order"], row["way"]) for row in figures["cliff"]))
    rates = {(row["order"], row["way"], row["conversations"]): row["hit_rate"] for row in figures["cliff"]}
    cliff = [[order, way, *(f"{rates[order, way, num]:.2f}" for num in numbers)] for order, way in names]
    yield figures_table("Hit rate by conversations, 256 exact snapshots", ["order", "way", *map(str, numbers)], cliff)


def _passes(figures: Mapping[str, Any]) -> Iterator[Table]:
    for name in ("engine", "roomier"):
        if name in figures:
            yield _second_pass(figures[name])
    if "one" not in figures:
        return
    one = figures["one"]
    costs = [[f"{one['miss_s'] * 1000:.0f}", f"{one['hit_s'] * 1000:.0f}", f"{one['ratio']:.1f}"]]
    yield figures_table("One conversation of 4,096 tokens", ["miss ms", "hit ms", "÷"], costs)


def _second_pass(engine: Mapping[str, Any]) -> Table:
    exact = engine["ways"]["exact"]["second_pass_s"]
    rows = [
        [
            name,
            f"{way['snapshot_bytes']:,}",
            f"{way['conversations_found']:.3f}",
            f"{way['second_pass_s']:.1f}",
            f"{exact / way['second_pass_s']:.1f}",
            f"{100 * way['recall']:.1f}",
        ]
        for name, way in engine["ways"].items()
    ]
    title = (
        f"{engine['conversations']} conversations of {engine['tokens']} tokens on the engine, "
        f"bytes of {engine['slots']} exact ones, second pass"
    )
    return figures_table(title, ["way", "snapshot bytes", "found", "seconds", "exact ÷", "recall"], rows)


_TABLES: Mapping[str, Callable[[Any], Iterator[Table]]] = {
    "schemes": _schemes,
    "quality": _quality,
    "refresh": _refresh,
    "forms": _forms,
    "chains": _chains,
    "capacity": _capacity,
    "passes": _passes,
    "long_passes": _passes,
}
