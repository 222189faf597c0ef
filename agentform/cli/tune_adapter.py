"""`agentform tune --adapter`: progress while it trains, and what came of it."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from agentform.cli.safe_text import SafeText
from agentform.cli.tables import Table
from agentform.training.adapter import train_adapter
from agentform.training.settings import AdapterSettings, Quality, TrainedAdapter
from agentform.training.settings import Progress as Trained

__all__ = ["tune_adapter"]


def tune_adapter(
    console: Console,
    model: str,
    examples: Path,
    *,
    name: str,
    folder: Path | None,
    gguf: Path | None,
    settings: AdapterSettings,
    device: str | None,
    num_threads: int | None,
) -> TrainedAdapter:
    """Train an adapter, show how it goes on, and say what it is worth and how it is loaded."""
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("starting", total=None)

        def show(at: Trained) -> None:
            about = f"held out: {at.held_out.accuracy:.0%} right, {at.held_out.surprise:.2f} nats"
            bar.update(task, completed=at.step, total=at.num_steps, description=about)

        def stage(what: str) -> None:
            bar.update(task, description=what)
            if not console.is_terminal:
                console.print(f"{what} …")

        trained = train_adapter(
            model,
            examples,
            name=name,
            folder=folder,
            gguf=gguf,
            settings=settings,
            device=device,
            num_threads=num_threads,
            on_progress=show,
            on_stage=stage,
        )
    _show(console, model, name, folder, trained)
    return trained


def _show(console: Console, model: str, name: str, folder: Path | None, trained: TrainedAdapter) -> None:
    title = f"{trained.num_held_out} decisions held out, {trained.num_trained} trained on"
    table = Table("", "before", "after", title=title)

    def row(what: str, of: Quality, then: Quality, pick: str, form: str) -> None:
        table.add_row(what, format(getattr(of, pick), form), format(getattr(then, pick), form))

    row("right", trained.before, trained.after, "accuracy", ".1%")
    row("surprise, nats", trained.before, trained.after, "surprise", ".3f")
    table.add_row("perplexity of free text", f"{trained.perplexity_before:.3f}", f"{trained.perplexity_after:.3f}")
    console.print(table)
    if not trained.strength:
        console.print("nothing that was learnt makes held-out decisions better: the adapter changes nothing")
    elif trained.strength < 1:
        console.print(f"weakened to {trained.strength:.0%} of what was learnt, so that free text keeps to its limit")
    if not trained.exported:
        console.print(SafeText(f"no file for llama.cpp: {trained.why_not}"))
    called = f"adapter:{name}" if folder is None else f"{model} with adapter={str(trained.folder)!r}"
    console.print(SafeText(f"kept in {trained.folder}; load it as {called}"), soft_wrap=True)
