"""`agentform models`: what is known by name, fetched, and learned of a model."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

__all__ = ["models_app"]

models_app = typer.Typer(help="The models that agentform knows by name.", no_args_is_help=True)


@models_app.command("list")
def list_models() -> None:
    """Show the models of the catalogue, and whether their weights are here."""
    from agentform.runtime.models.catalogue import CATALOGUE
    from agentform.runtime.models.resolve import is_ready

    for name, entry in CATALOGUE.items():
        state = "ready" if is_ready(entry, gguf_alone=True) else f"not fetched; run: agentform models fetch {name}"
        typer.echo(f"{name}\t{entry.title}\t{state}")


@models_app.command("fetch")
def fetch_model(name: Annotated[str, typer.Argument(help="A catalogue name or a hub id.")]) -> None:
    """Download a model, check its digest, and where torch is installed convert it once."""
    from importlib.util import find_spec

    from agentform.runtime.models.catalogue import CATALOGUE
    from agentform.runtime.models.resolve import ensure_weights, resolve_model

    without_torch = find_spec("torch") is None and name in CATALOGUE  # llama.cpp runs the file as it is
    typer.echo(f"{name}: {ensure_weights(CATALOGUE[name], gguf_alone=True) if without_torch else resolve_model(name)}")


@models_app.command("check")
def check_model_template(
    name: Annotated[str, typer.Argument(help="A model's name, folder or file, or a chat template (.jinja).")],
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """Show what is learned of a model's chat template: calls, thoughts, rules, and what will not work."""
    from agentform.cli.check_model import check_model

    check_model(name, Console(), as_json=as_json)


@models_app.command("engine")
def which_engine(
    name: Annotated[str, typer.Argument(help="A catalogue name, a GGUF file, a model folder or a hub id.")],
    engine: Annotated[str | None, typer.Option("--engine", help="torch or llama_cpp, instead of what suits.")] = None,
) -> None:
    """Say which engine runs a model on this machine, why, and what it needs; the model is fetched if need be."""
    from agentform.runtime.model_facts import facts_of

    for what, value in facts_of(name, engine=engine):
        typer.echo(f"{what}\t{value}")
