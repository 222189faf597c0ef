"""Whether the default way of scoring is near each model's best one, on every set; and how it stands beside writing."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import anyio
from rich.progress import Progress

from agentform import Engine, load_engine
from agentform.cli.tables import Table
from agentform.errors import InvalidInput
from benchmarks.common.datasets import SETS, load_items, sampled
from benchmarks.common.harness import Context
from benchmarks.common.items import Item
from benchmarks.common.parts import add_parts, last_figures
from benchmarks.forms.compared import SEED, compared
from benchmarks.forms.recording import record

__all__ = ["add_arguments", "run"]

_ITEMS = {"smollm2-135m": 40, "qwen2.5-coder-0.5b": 20, "qwen2.5-coder-1.5b": 8}
"""Of a set with one field and few options; of the others a third: each item costs many times as much."""
_COSTLY = ("sgd", "bfcl", "clinc150", "banking77")
_QUICK = 4


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """`--model`, `--set` and `--items`; figures of models and sets that are not run are kept."""
    add_parts(parser, "--model", _ITEMS)
    add_parts(parser, "--set", SETS)
    parser.add_argument("--items", type=int, metavar="N", help="items of a one-field set; else what suits the model")


def run(context: Context) -> None:
    """Record every set with every model, fields listed and not, and compare the settings on that.

    Raises:
        InvalidInput: no data folder is given, or it does not hold a set.
    """
    if context.data is None:
        raise InvalidInput("this needs the public sets, in a folder given with --data")
    for model in context.options.get("model") or list(_ITEMS):
        engine: Any = load_engine(model, num_threads=1)
        try:
            for name in context.options.get("set") or list(SETS):
                figures = anyio.run(_measure, engine, _items(context, model, name), context)
                _show(context, f"{model}, {name}", figures)
                last = last_figures(context)
                context.write({**last, model: {**last.get(model, {}), name: figures}}, seeds=[SEED])
        finally:
            engine.close()


def _items(context: Context, model: str, name: str) -> list[Item]:
    most = _QUICK if context.quick else context.options.get("items") or _ITEMS[model]
    return sampled(load_items(context, name), max(1, most // 3) if name in _COSTLY else most, SEED)


async def _measure(engine: Engine, items: Sequence[Item], context: Context) -> dict[str, Any]:
    with Progress(console=context.console, transient=True) as progress:
        task = progress.add_task(items[0].set, total=2 * len(items))
        recorded = {
            listed: await record(engine, items, listed=listed, done=lambda: progress.advance(task))
            for listed in (False, True)
        }
    return compared(recorded)


def _show(context: Context, title: str, figures: dict[str, Any]) -> None:
    table = Table("setting", *(f"calibration {strength}" for strength in figures["strengths"]), "written", title=title)
    for name, row in figures["accuracy"].items():
        table.add_row(name, *(f"{value:.3f}" for value in row), f"{figures['written'][name]:.3f}")
    context.console.print(table)
