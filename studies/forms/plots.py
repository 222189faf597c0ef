"""Plots of the figures as PNG files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agentform.errors import MissingDependency
from benchmarks.common.datasets import SINGLE
from studies.forms.timing import PROMPT_TOKENS

__all__ = ["draw"]


def draw(figures: Mapping[str, Any], folder: Path) -> None:
    """Draw what there are figures for.

    Raises:
        MissingDependency: matplotlib is not installed.
    """
    try:
        import matplotlib
    except ImportError as error:
        raise MissingDependency("the plots need matplotlib: pip install matplotlib") from error
    matplotlib.use("agg")
    folder.mkdir(exist_ok=True)
    if "time" in figures:
        _time(figures["time"], folder / "forms_time.png")
    if "accuracy" in figures:
        _accuracy(figures["accuracy"], folder / "forms_accuracy.png")


def _time(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(2, 2, figsize=(9, 6), sharex=True)
    cases = [(tokens, warm) for tokens in PROMPT_TOKENS for warm in (False, True)]
    for panel, (tokens, warm) in zip(panels.flat, cases, strict=True):
        own = [row for row in rows if row["prompt_tokens"] == tokens and row["warm"] == warm]
        for way, label in (("score", "scoring"), ("skip", "writing, forced tokens skipped"), ("plain", "writing")):
            panel.plot([row["fields"] for row in own], [row["median_s"][way] for row in own], marker="o", label=label)
        panel.set_title(f"{tokens} tokens, {'warm' if warm else 'cold'}")
        panel.set_ylabel("seconds")
        panel.set_ylim(bottom=0)
    panels[0, 0].legend()
    panels[1, 0].set_xlabel("closed fields")
    panels[1, 1].set_xlabel("closed fields")
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def _accuracy(figures: Mapping[str, Any], path: Path) -> None:
    from matplotlib import pyplot

    ways = {
        "masked_text": "writing",
        "raw": "scoring, raw",
        "calibrated": "scoring, as shipped",
        "majority": "majority",
    }
    names = [name for name in (*SINGLE, "sgd", "bfcl", "clinc150", "banking77", "shipped") if name in figures]
    figure, panel = pyplot.subplots(figsize=(10, 4))
    for number, (way, label) in enumerate(ways.items()):
        places = [index + 0.16 * number for index in range(len(names))]
        panel.bar(places, [figures[name]["accuracy"][way] for name in names], width=0.16, label=label)
    panel.set_xticks([index + 0.3 for index in range(len(names))], names)
    panel.set_ylabel("accuracy per leaf")
    panel.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)
