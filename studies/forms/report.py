"""The parts' figures as tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rich.console import Console

from agentform.cli.tables import Table
from studies.forms.shipped import WAYS
from studies.forms.study import Estimator, Rule

__all__ = ["show"]


def show(console: Console, part: str, figures: Any) -> None:
    """Print one part's tables."""
    for table in _TABLES[part](figures):
        console.print(table)


def _table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> Table:
    table = Table(title=title, title_justify="left")
    for number, column in enumerate(columns):
        table.add_column(column, justify="left" if number == 0 else "right")
    for row in rows:
        table.add_row(*map(str, row))
    return table


def _part(value: float) -> str:
    return f"{value:.3f}"


def _change(found: Mapping[str, float]) -> str:
    return f"{found['mean']:+.3f} [{found['low']:+.3f}, {found['high']:+.3f}]"


def _accuracy(figures: Mapping[str, Any]) -> list[Table]:
    ways = (*WAYS, "majority")
    rows = [
        [name, found["items"], found["leaves"], *(_part(found["accuracy"][way]) for way in ways)]
        for name, found in figures.items()
    ]
    pairs = ("raw - masked_tokens", "raw - masked_text", "calibrated - masked_text", "calibrated - raw")
    changes = [[name, *(_change(found["differences"][pair]) for pair in pairs)] for name, found in figures.items()]
    agreed = [
        [
            name,
            *(_part(value) for value in found["agreement_with_raw"].values()),
            *(_part(found["calibration_error"][kind]) for kind in ("raw", "calibrated")),
            _part(found["mean_legal_mass"]),
        ]
        for name, found in figures.items()
    ]
    masked = [way for way in WAYS if way.startswith("masked")]
    return [
        _table("Accuracy per leaf", ["set", "items", "leaves", *ways], rows),
        _table("Paired differences, 95% intervals", ["set", *pairs], changes),
        _table("Agreement with raw scoring; calibration error", ["set", *masked, "raw", "calibrated", "mass"], agreed),
    ]


def _study(figures: Sequence[Mapping[str, Any]]) -> list[Table]:
    def at(row: Mapping[str, Any], keeps: bool, strength: float, estimator: Estimator = "content_free") -> str:
        rule = Rule(strength=strength, null_strength=strength, keeps_null=keeps, estimator=estimator)
        return _part(row["rules"][rule.name])

    rows = [
        [
            f"{row['set']} {row['prompt']}/{row['lead']}",
            *(at(row, True, strength) for strength in (0.0, 0.5, 0.7, 0.85, 1.0)),
            at(row, False, 0.7),
            at(row, True, 0.7, "running"),
            at(row, True, 0.7, "mixed"),
        ]
        for row in figures
    ]
    columns = ["set prompt/lead", "raw", "0.5", "0.7", "0.85", "1", "0.7 null too", "0.7 running", "0.7 mixed"]
    return [_table("Study, on the items that settings are chosen on", columns, rows)]


def _time(figures: Sequence[Mapping[str, Any]]) -> list[Table]:
    rows = [
        [
            f"{row['prompt_tokens']} {'warm' if row['warm'] else 'cold'}",
            row["fields"],
            *(f"{row['median_s'][way]:.3f}" for way in ("score", "skip", "plain")),
            f"{row['skip_over_score']:.1f}",
            f"{row['plain_over_score']:.1f}",
            *(f"{row['completion_tokens'][way]:.0f}" for way in ("score", "skip", "plain")),
        ]
        for row in figures
    ]
    columns = ["prompt", "fields", "score s", "skip s", "plain s", "skip/score", "plain/score"]
    return [_table("Time: medians, ratios within rounds", [*columns, "tokens", "skip", "plain"], rows)]


def _contradictions(figures: Sequence[Mapping[str, Any]]) -> list[Table]:
    rows = [
        [
            f"{row['coupling']} {row['way']}",
            row["forms"],
            row["contradictions"],
            row["rejected"],
            _part(row["accuracy"]),
            _change(row["against_independent"]),
            f"{row['median_ms']:.0f}",
            f"{row['median_extra_ms']:+.0f}",
            f"{row['solved_jointly']} ({row['mean_gap']:.1f})",
        ]
        for row in figures
    ]
    columns = [
        "form and way",
        "forms",
        "contradict",
        "rejected",
        "accuracy",
        "against independent",
        "ms",
        "extra",
        "joint (gap)",
    ]
    return [_table("Contradictions", columns, rows)]


def _bias(figures: Sequence[Mapping[str, Any]]) -> list[Table]:
    names = ("accuracy", "accuracy_over_orders", "changed_by_order", "most_taken")
    rows = [
        [
            f"{row['set']} {row['answers']} {kind}",
            *(_part(row[kind][name]) for name in names),
            *(_part(row[kind]["calibration"][name]) for name in ("before", "after")),
            f"{row[kind]['calibration']['temperature']:.2f}",
        ]
        for row in figures
        for kind in ("raw", "calibrated")
    ]
    columns = ["set", "accuracy", "orders averaged", "order decides", "most taken", "ECE", "ECE fitted", "temperature"]
    return [_table("Bias, options listed in the prompt", columns, rows)]


def _mistakes(figures: Sequence[Mapping[str, Any]]) -> list[Table]:
    rows = [
        [
            f"{row['set']} {row['way']}",
            *(_part(row["accuracy"][kind]) for kind in ("raw", "calibrated")),
            *(_change(row["against_right"][kind]) for kind in ("raw", "calibrated")),
        ]
        for row in figures
    ]
    columns = ["set and way", "raw", "calibrated", "raw against right", "calibrated against right"]
    return [_table("Mistakes", columns, rows)]


_TABLES: Mapping[str, Callable[[Any], list[Table]]] = {
    "accuracy": _accuracy,
    "study": _study,
    "time": _time,
    "contradictions": _contradictions,
    "bias": _bias,
    "mistakes": _mistakes,
}
