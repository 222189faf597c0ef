"""The recall benchmark: training, measuring, a table, a plot and a result file."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from transformers import AutoModelForCausalLM, PreTrainedModel

from agentform.cli.tables import Table
from benchmarks.common.bootstrap import quantiles
from benchmarks.common.harness import PLOTS, Context
from studies.recall import evaluate
from studies.recall.models import MODELS, folder_of, save
from studies.recall.train import STAGES, Stage, recipe, train

__all__ = ["SEED", "run"]

SEED = 0
_HELD_OUT = 1000
_QUICK = (Stage(steps=40, batch=8, tokens=40, most_pairs=4, rate=3e-3),)
_QUICK_GRID = ((256, 4),)
_TRAINING = "training.json"


def run(context: Context, *, parts: Sequence[str], models: Sequence[str] = tuple(MODELS)) -> None:
    """See the package."""
    with tempfile.TemporaryDirectory() as spare:
        folders = {name: Path(spare) / name if context.quick else folder_of(name) for name in models}
        if "train" in parts:
            for name, folder in folders.items():
                _train(context, name, folder)
        if "evaluate" in parts:
            figures = {name: _evaluate(folder, quick=context.quick) for name, folder in folders.items()}
            for name, each in figures.items():
                context.console.print(_table(name, each))
            context.write(figures, seeds=[SEED, _HELD_OUT])
            if not context.quick:
                _plot(figures)


def _train(context: Context, name: str, folder: Path) -> None:
    stages = _QUICK if context.quick else STAGES
    context.console.print(f"Training {name}")
    model, curve = train(name, seed=SEED, stages=stages, tell=context.console.print)
    save(model, folder)
    facts = {"model": name, "seed": SEED, "stages": recipe(stages), "curve": curve}
    (folder / _TRAINING).write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")


def _evaluate(folder: Path, *, quick: bool) -> dict[str, Any]:
    model: PreTrainedModel = AutoModelForCausalLM.from_pretrained(folder, dtype="float32").eval()
    grid = _QUICK_GRID if quick else evaluate.GRID
    rows = evaluate.horizons(model, seed=_HELD_OUT)
    return {
        "parameters": sum(each.numel() for each in model.parameters()),
        "training": json.loads((folder / _TRAINING).read_text(encoding="utf-8")),
        "horizons": rows,
        "static_quantiles": quantiles([row["static"] for row in rows], 4),
        "seen_quantiles": quantiles([row["seen"] for row in rows], 4),
        "recall": evaluate.recall(model, grid=grid, seed=_HELD_OUT),
        "needles": evaluate.needles(model, tokens=256 if quick else 4096, num=4 if quick else 16, seed=_HELD_OUT),
    }


def _table(name: str, figures: dict[str, Any]) -> Table:
    pairs = sorted({row["pairs"] for row in figures["recall"]})
    table = Table("tokens", *(f"{num} keys" for num in pairs), title=f"{name}: recall, nothing compressed")
    for tokens in sorted({row["tokens"] for row in figures["recall"]}):
        found = {row["pairs"]: row["recall"] for row in figures["recall"] if row["tokens"] == tokens}
        table.add_row(f"{tokens:,}", *(f"{found[num]:.4f}" if num in found else "" for num in pairs))
    table.caption = (
        "horizons, quartiles: by the weights "
        + ", ".join(f"{each:,.0f}" for each in figures["static_quantiles"])
        + "; seen "
        + ", ".join(f"{each:,.0f}" for each in figures["seen_quantiles"])
    )
    return table


def _plot(figures: dict[str, Any]) -> None:
    """Loss, recall and horizons of each model; without matplotlib there is no plot."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return
    figure = Figure(figsize=(12, 3.4 * len(figures)), layout="constrained")
    for index, (name, each) in enumerate(figures.items()):
        curve = each["training"]["curve"]
        left = figure.add_subplot(len(figures), 3, 3 * index + 1)
        tokens = [point["tokens"] / 1e6 for point in curve]
        left.plot(tokens, [point["answer_loss"] for point in curve], label="answers")
        left.plot(tokens, [point["noise_loss"] for point in curve], label="noise")
        left.set(xlabel="million tokens", ylabel="loss (nats)", yscale="log", title=name)
        left.legend()
        middle = figure.add_subplot(len(figures), 3, 3 * index + 2)
        for pairs in sorted({row["pairs"] for row in each["recall"]}):
            rows = [row for row in each["recall"] if row["pairs"] == pairs]
            middle.plot(
                [row["tokens"] for row in rows], [row["recall"] for row in rows], marker="o", label=f"{pairs} keys"
            )
        middle.set(xscale="log", xlabel="context (tokens)", ylabel="recall", ylim=(0, 1.03))
        middle.legend()
        right = figure.add_subplot(len(figures), 3, 3 * index + 3)
        right.scatter([row["static"] for row in each["horizons"]], [row["seen"] for row in each["horizons"]], s=14)
        right.set(xscale="log", yscale="log", xlabel="static horizon (tokens)", ylabel="seen on noise (tokens)")
    PLOTS.mkdir(parents=True, exist_ok=True)
    figure.savefig(PLOTS / "recall.png", dpi=110)
