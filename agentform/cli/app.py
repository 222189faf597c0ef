"""The command line: `agentform serve | chat | fill | demo | models | cache | plan | tune`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from agentform.cli.cache_commands import cache_app
from agentform.cli.chat_command import chat
from agentform.cli.fill_command import fill
from agentform.cli.models_commands import models_app
from agentform.cli.options import NumThreads
from agentform.cli.safe_text import SafeText
from agentform.cli.schema_commands import plan, tune
from agentform.cli.serve_commands import mcp, serve
from agentform.errors import AgentformError

__all__ = ["app", "main"]

app = typer.Typer(
    help="Tool calls that are chosen, not written.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(models_app, name="models")
app.add_typer(cache_app, name="cache")
for _command in (plan, tune, serve, fill, chat, mcp):
    app.command()(_command)


def main() -> None:
    """Run the command line; errors that a user can act on are one line on stderr and exit status 1."""
    try:
        app()
    except AgentformError as error:
        Console(stderr=True).print(SafeText(f"{type(error).__name__}: {error}", style="red"), soft_wrap=True)
        sys.exit(1)


@app.callback(invoke_without_command=True)
def _root(
    version: Annotated[bool, typer.Option("--version", help="Show the version, and end.")] = False,
) -> None:
    """Tool calls that are chosen, not written."""
    if version:
        from agentform.cli.version import own_version

        typer.echo(f"agentform {own_version()}")
        raise typer.Exit()


@app.command()
def doctor() -> None:
    """Show what this machine has: cores and memory, engines and extras, models, and what to install."""
    from agentform.cli.doctor import show_machine

    show_machine(Console())


@app.command()
def demo(
    input: Annotated[
        Path | None, typer.Option("--input", help="Messages: one per line, an empty line between customers.")
    ] = None,
    model: Annotated[str, typer.Option(help="A catalogue name, a model folder or a hub id.")] = "smollm2-135m",
    num_threads: NumThreads = None,
) -> None:
    """Run the support desk on a real model and show how every argument was decided."""
    import anyio

    from agentform.cli.demo.run import run_demo
    from agentform.cli.demo.script import default_script

    console = Console()
    anyio.run(lambda: run_demo(input or default_script(), model=model, console=console, num_threads=num_threads))
