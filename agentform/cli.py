"""The command line: `agentform demo | models | cache | plan | tune`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from agentform.errors import AgentformError

__all__ = ["app", "main"]

app = typer.Typer(
    help="Tool calls that are chosen, not written.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
models_app = typer.Typer(help="The models that agentform knows by name.", no_args_is_help=True)
app.add_typer(models_app, name="models")
cache_app = typer.Typer(help="Conversations that an engine keeps on disk.", no_args_is_help=True)
app.add_typer(cache_app, name="cache")


def main() -> None:
    """Run the command line; errors that a user can act on are one line on stderr and exit status 1."""
    try:
        app()
    except AgentformError as error:
        Console(stderr=True).print(Text(f"{type(error).__name__}: {error}", style="red"), soft_wrap=True)
        sys.exit(1)


@app.command()
def demo(
    input: Annotated[
        Path | None, typer.Option("--input", help="Messages: one per line, an empty line between customers.")
    ] = None,
    model: Annotated[str, typer.Option(help="A catalogue name, a model folder or a hub id.")] = "smollm2-135m",
) -> None:
    """Run the support desk on a real model and show how every argument was decided."""
    import anyio

    from agentform.demo.run import run_demo
    from agentform.demo.script import default_script

    console = Console()
    anyio.run(lambda: run_demo(input or default_script(), model=model, console=console))


@models_app.command("list")
def list_models() -> None:
    """Show the models of the catalogue, and whether their weights are here."""
    from agentform.runtime.catalogue import CATALOGUE
    from agentform.runtime.torch.weights import is_ready

    for name, entry in CATALOGUE.items():
        state = "ready" if is_ready(entry) else f"not fetched; run: agentform models fetch {name}"
        typer.echo(f"{name}\t{entry.title}\t{state}")


@models_app.command("fetch")
def fetch_model(name: Annotated[str, typer.Argument(help="A catalogue name or a hub id.")]) -> None:
    """Download a model, check its digest and convert it once."""
    from agentform.runtime.torch.weights import resolve_model

    typer.echo(f"{name}: {resolve_model(name)}")


_Source = Annotated[str, typer.Argument(help="The cache_dir of an engine, or the URL of a server's /metrics.")]
_Every = Annotated[float, typer.Option("--every", min=0.05, help="Seconds between two looks.")]


@cache_app.command("stats")
def cache_stats(
    source: _Source,
    watch: Annotated[
        bool, typer.Option("--watch", help="Go on until interrupted; a server's hit rate over time.")
    ] = False,
    every: _Every = 1.0,
) -> None:
    """Show what a cache folder holds, or what the cache of a running server does.

    A server that asks for a key gets the one in the variable AGENTFORM_API_KEY.
    """
    from agentform.cache_watch import stats

    stats(source, Console(), watch=watch, every_s=every)


@cache_app.command("plot")
def cache_plot(
    source: Annotated[
        str, typer.Argument(help="A file that HitRateHistory.save wrote, or the URL of a server's /metrics.")
    ],
    out: Annotated[Path, typer.Option(help="The page to write.")] = Path("hit_rate.html"),
    seconds: Annotated[float, typer.Option(help="How long to watch a server.")] = 60.0,
    every: _Every = 1.0,
) -> None:
    """Draw token hit rate over time, by conversation and miss reason, on a page that a browser shows."""
    from agentform.cache_watch import plot

    num = plot(source, out, seconds=seconds, every_s=every)
    typer.echo(f"{out}: {num} samples")


@cache_app.command("inspect")
def cache_inspect(folder: Annotated[Path, typer.Argument(help="The cache_dir of an engine.")]) -> None:
    """List what a cache folder holds."""
    from agentform.cache_view import inspect_folder

    inspect_folder(folder, Console())


@app.command()
def plan(
    target: Annotated[str, typer.Argument(help="`module:attribute`, or a JSON Schema file.")],
    lenient: Annotated[bool, typer.Option(help="List unknown schema keywords instead of refusing them.")] = False,
    lint: Annotated[bool, typer.Option(help="Show where the schema is open although it need not be.")] = False,
    probe: Annotated[
        Path | None, typer.Option(help="Texts, one JSON object a line: measure which fields depend on one another.")
    ] = None,
    model: Annotated[str, typer.Option(help="The model to probe with.")] = "smollm2-135m",
) -> None:
    """Show how each leaf of a tool, model or schema will be filled, and why."""
    from agentform.plan import load_target, show_hints, show_plan

    console = Console()
    loaded = load_target(target, lenient=lenient)
    show_plan(console, loaded)
    if lint:
        show_hints(console, loaded)
    if probe is not None:
        from agentform.tuning_view import probe_target

        probe_target(console, loaded, model, probe)


@app.command()
def tune(
    model: Annotated[str, typer.Argument(help="A catalogue name, a model folder or a hub id.")],
    data: Annotated[
        Path, typer.Option(help="Labelled examples, one JSON object a line: text, field, options, gold, description.")
    ],
    keep: Annotated[bool, typer.Option(help="Keep what was found for this model.")] = True,
) -> None:
    """Find the lead-in, calibration and temperature that suit a model."""
    from agentform.tuning_view import tune_model

    tune_model(Console(), model, data, keep=keep)
