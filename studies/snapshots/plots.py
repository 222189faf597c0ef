"""Plots of the figures as PNG files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from agentform.errors import MissingDependency

__all__ = ["draw"]

_PAIRS = 16


def draw(figures: Mapping[str, Any], folder: Path) -> None:
    """Draw what there are figures for. Raises MissingDependency without matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingDependency("the plots need matplotlib: pip install matplotlib") from error
    folder.mkdir(parents=True, exist_ok=True)
    for part, panels in _PLOTS.items():
        if part in figures:
            figure = Figure(figsize=(11, 4.2 * (2 if part == "quality" else 1)), layout="constrained")
            panels(figures[part], figure)
            figure.savefig(folder / f"snapshots_{part}.png", dpi=110)


def _quality(figures: Mapping[str, Any], figure: Any) -> None:
    """16 keys at the longest context that was measured: recall above, logit error below, a column per model."""
    for column, (model, found) in enumerate(figures.items()):
        rows = [row for row in found["rows"] if row["pairs"] == _PAIRS]
        longest = max(row["tokens"] for row in rows)
        rows = [row for row in rows if row["tokens"] == longest]
        for line, (value, label) in enumerate((("recall", "recall"), ("logit_error", "logit error"))):
            axes = figure.add_subplot(2, len(figures), line * len(figures) + column + 1)
            for way in ("random", "drop", "drop + refresh", "int8", "int8 + drop", "int4", "int4 + drop", "ours"):
                points = sorted((row["bytes"], row[value]) for row in rows if row["way"] == way)
                style = {"linewidth": 2.5, "color": "black"} if way == "ours" else {"linewidth": 1}
                if way == "random":
                    style = {"linestyle": "none", "color": "silver"}
                axes.plot([b for b, _ in points], [v for _, v in points], marker="o", markersize=4, label=way, **style)
            axes.axvline(found["exact_bytes"], linestyle=":", color="gray", label="exact")
            axes.set(xscale="log", xlabel="bytes of a snapshot", ylabel=label)
            axes.set_title(f"{model}, 16 keys in {longest:,} tokens")
            if value == "logit_error":
                axes.set_yscale("log")
            axes.legend(fontsize="small")


def _forms(figures: Mapping[str, Any], figure: Any) -> None:
    """Nine fields: how far the answers' logits are from those of the live state, by tokens since the restore."""
    for column, (model, rows) in enumerate(figures.items()):
        axes = figure.add_subplot(1, len(figures), column + 1)
        chosen = [row for row in rows if row["fields"] == 9 and row["parallel_error"] > 0]
        for start in dict.fromkeys(row["start"] for row in chosen):
            own = [row for row in chosen if row["start"] == start]
            (line,) = axes.plot([r["later"] for r in own], [r["parallel_error"] for r in own], marker="o", label=start)
            axes.plot([r["later"] for r in own], [r["in_turn_error"] for r in own], "--", color=line.get_color())
        axes.set(xlabel="tokens since the restore", ylabel="logit error", yscale="log")
        axes.set_title(f"{model}, nine fields: at once, and in turn (dashed)")
        axes.legend(fontsize="small")


def _chains(figures: Mapping[str, Any], figure: Any) -> None:
    for column, (model, found) in enumerate(figures.items()):
        axes = figure.add_subplot(1, len(figures), column + 1)
        for name, errors in found["logit_error"].items():
            axes.plot(range(1, len(errors) + 1), errors, label=name)
        axes.set(xlabel="restores", ylabel="logit error", yscale="log", title=model)
        axes.legend()


def _capacity(figures: Mapping[str, Any], figure: Any) -> None:
    for column, order in enumerate(("sequential", "random")):
        axes = figure.add_subplot(1, 2, column + 1)
        rows = [row for row in figures["cliff"] if row["order"] == order]
        for way in dict.fromkeys(row["way"] for row in rows):
            points = [(row["conversations"], row["hit_rate"]) for row in rows if row["way"] == way]
            axes.plot([n for n, _ in points], [rate for _, rate in points], marker="o", markersize=4, label=way)
        axes.set(xscale="log", xlabel="conversations", ylabel="hit rate of the second pass", title=f"{order} order")
        axes.legend()


_PLOTS: Mapping[str, Callable[[Any, Any], None]] = {
    "quality": _quality,
    "forms": _forms,
    "chains": _chains,
    "capacity": _capacity,
}
