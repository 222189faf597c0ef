"""`agentform cache`: what an engine keeps, on disk and behind a server."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from agentform.cli.engine_settings import size_in_bytes

__all__ = ["cache_app"]

cache_app = typer.Typer(help="Conversations that an engine keeps on disk.", no_args_is_help=True)


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
    from agentform.cli.cache_stats import stats

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
    from agentform.cli.cache_stats import plot

    num = plot(source, out, seconds=seconds, every_s=every)
    typer.echo(f"{out}: {num} samples")


@cache_app.command("inspect")
def cache_inspect(folder: Annotated[Path, typer.Argument(help="The cache_dir of an engine.")]) -> None:
    """List what a cache folder holds."""
    from agentform.cli.cache_stats import inspect_folder

    inspect_folder(folder, Console())


@cache_app.command("horizons")
def cache_horizons(
    model: Annotated[str, typer.Argument(help="A model folder, a catalogue name or a hub id.")],
    plot: Annotated[Path | None, typer.Option(help="Write the picture to this PNG file too.")] = None,
) -> None:
    """Show how long a hybrid model's heads remember, and what snapshot policies would keep."""
    from agentform.cli.cache_horizons import show_horizons

    show_horizons(Console(), model, plot)


@cache_app.command("advise")
def cache_advise(
    source: Annotated[
        str | None, typer.Argument(help="The URL of a running server: agentform's, or SGLang's with --enable-metrics.")
    ] = None,
    trace: Annotated[
        Path | None,
        typer.Option(help="Requests, one JSON object a line: conversation, prompt_tokens, completion_tokens."),
    ] = None,
    statistics: Annotated[Path | None, typer.Option(help="statistics() of an engine, as JSON.")] = None,
    model: Annotated[str | None, typer.Option(help="Compare snapshot policies for this model.")] = None,
    budget: Annotated[
        int | None,
        typer.Option("--budget", parser=size_in_bytes, metavar="SIZE", help="The cache's budget, for a trace."),
    ] = None,
) -> None:
    """Say whether more memory, or smaller states and KV, would find more of the conversations that come back."""
    from agentform.cli.cache_advise import advise_from

    advise_from(Console(), source, trace=trace, statistics=statistics, model=model, budget_bytes=budget)
