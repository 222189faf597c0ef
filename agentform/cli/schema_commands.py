"""`agentform plan` and `tune`: how forms will be filled, and what suits a model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from agentform.cli.options import NumThreads
from agentform.errors import InvalidInput

__all__ = ["plan", "tune"]


def plan(
    target: Annotated[str, typer.Argument(help="`module:attribute`, or a JSON Schema file.")],
    lenient: Annotated[bool, typer.Option(help="List unknown schema keywords instead of refusing them.")] = False,
    lint: Annotated[bool, typer.Option(help="Show where the schema is open although it need not be.")] = False,
    probe: Annotated[
        Path | None, typer.Option(help="Texts, one JSON object a line: measure which fields depend on one another.")
    ] = None,
    model: Annotated[str | None, typer.Option(help="The model to probe with; else smollm2-135m.")] = None,
    num_threads: NumThreads = None,
) -> None:
    """Show how each leaf of a tool, model or schema will be filled, and why."""
    from agentform.cli.plan import load_target, show_hints, show_plan

    if probe is None and (model is not None or num_threads is not None):
        raise InvalidInput("--model and --num-threads are of --probe; without it no model is needed")

    console = Console()
    loaded = load_target(target, lenient=lenient)
    show_plan(console, loaded)
    if lint:
        show_hints(console, loaded)
    if probe is not None:
        from agentform.cli.tune import probe_target

        probe_target(console, loaded, model or "smollm2-135m", probe, num_threads=num_threads)


def tune(
    model: Annotated[str, typer.Argument(help="A catalogue name, a model folder or a hub id.")],
    data: Annotated[
        Path | None,
        typer.Option(
            help="Labelled examples, one JSON object a line: text, field, options, gold, description; "
            "without them, those that come with agentform."
        ),
    ] = None,
    keep: Annotated[bool, typer.Option(help="Keep what was found for this model.")] = True,
    num_threads: NumThreads = None,
) -> None:
    """Find the prompt, lead-in, calibration and temperature that suit a model."""
    from agentform.cli.tune import tune_model

    tune_model(Console(), model, data, keep=keep, num_threads=num_threads)
