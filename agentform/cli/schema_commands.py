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
    adapter: Annotated[
        Path | None,
        typer.Option(help="Train a LoRA adapter on these examples instead: labelled fields, forms or calls."),
    ] = None,
    name: Annotated[str, typer.Option(help="What the adapter is loaded by.")] = "",
    folder: Annotated[Path | None, typer.Option(help="Write the adapter here, not into the cache.")] = None,
    gguf: Annotated[
        Path | None, typer.Option(help="A GGUF file of the same model, which the adapter is for too.", exists=True)
    ] = None,
    epochs: Annotated[int, typer.Option(help="Times that an adapter sees every example, at most.")] = 3,
    rank: Annotated[int, typer.Option(help="Of the adapter's matrices.")] = 8,
    learning_rate: Annotated[float, typer.Option(help="Of the adapter, at its highest.")] = 5e-4,
    device: Annotated[str | None, typer.Option(help="Where an adapter is trained: cpu or cuda.")] = None,
    num_threads: NumThreads = None,
) -> None:
    """Find the prompt, lead-in, calibration and temperature that suit a model; or train an adapter for it."""
    if adapter is not None:
        from agentform.cli.tune_adapter import tune_adapter
        from agentform.training.settings import AdapterSettings

        if data is not None:
            raise typer.BadParameter("--data is what the prompt is tuned on; an adapter is trained on --adapter alone")
        settings = AdapterSettings(epochs=epochs, rank=rank, learning_rate=learning_rate)
        tune_adapter(
            Console(),
            model,
            adapter,
            name=name or adapter.stem,
            folder=folder,
            gguf=gguf,
            settings=settings,
            device=device,
            num_threads=num_threads,
        )
        return
    from agentform.cli.tune import tune_model

    tune_model(Console(), model, data, keep=keep, num_threads=num_threads)
