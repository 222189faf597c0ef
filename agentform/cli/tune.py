"""`agentform tune` and `agentform plan --probe`: reading examples, showing progress and what was found."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

import anyio
from rich.console import Console
from rich.progress import Progress

from agentform.cli.engine_settings import EngineSettings
from agentform.cli.loading import opened
from agentform.cli.safe_text import SafeText
from agentform.cli.tables import Table
from agentform.errors import InvalidInput
from agentform.forms.coupling import Coupling, missing, probe
from agentform.forms.probe_items import PROBE_EXAMPLES
from agentform.forms.prompt_style import LEAD_INS
from agentform.forms.scoring import Scoring
from agentform.forms.tuning import CALIBRATIONS, Example, Tuned, tune
from agentform.runtime.models.tuned_scoring import write_scoring
from agentform.schema.target import Target

__all__ = ["probe_target", "read_examples", "read_texts", "tune_model"]

T = TypeVar("T")


def read_examples(file: Path) -> list[Example]:
    """Labelled examples, one JSON object a line with text, field, options, gold and perhaps description.

    Raises:
        InvalidInput: the file cannot be read or a line is not such an object; it names the line.
    """
    return _lines(file, _example)


def read_texts(file: Path) -> list[str]:
    """Texts, one JSON object a line with `text`, or one JSON string a line.

    Raises:
        InvalidInput: as `read_examples` raises it.
    """
    return _lines(file, lambda item: item if isinstance(item, str) else item["text"])


def _example(item: Any) -> Example:
    return Example(
        text=item["text"],
        field=item["field"],
        options=tuple(item["options"]),
        gold=item["gold"],
        description=item.get("description", ""),
    )


def _lines(file: Path, convert: Callable[[Any], T]) -> list[T]:
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"cannot read {file}: {error}") from error
    found: list[T] = []
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                found.append(convert(json.loads(line)))
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise InvalidInput(f"{file}, line {number}: {type(error).__name__}: {error}") from error
    return found


def tune_model(console: Console, model: str, file: Path | None, *, keep: bool, num_threads: int | None = None) -> Tuned:
    """Tune a model on a file, show what was found and keep it for the model unless told not to.

    Without a file, on the examples that come with the package: a short measurement with the default lead-in alone. It
    is kept apart from what was found on a file, which goes first.
    """
    examples = PROBE_EXAMPLES if file is None else read_examples(file)
    engine = opened(Console(stderr=True), model, EngineSettings(num_threads=num_threads))
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("scoring examples")
        found = anyio.run(
            lambda: tune(
                engine,
                examples,
                lead_ins=() if file is None else LEAD_INS,
                on_progress=lambda d, of: progress.update(task, completed=d, total=of),
            )
        )
    console.print(_trials(found))
    console.print(f"held out: {found.held_out:.3f}, with the defaults {found.held_out_default:.3f}")
    if keep and found.held_out >= found.held_out_default:
        facts = {"examples": len(examples), "held_out": found.held_out, "held_out_default": found.held_out_default}
        kept = write_scoring(engine.info.digest, asdict(found.scoring), measured=facts if file is None else None)
        console.print(f"kept for {model}: {kept}", soft_wrap=True)
    elif keep:
        console.print("not kept: on the held-out half the defaults do better")
    return found


def _trials(found: Tuned) -> Table:
    best = found.scoring
    title = f"best: {_named(best)}, calibration {best.calibration}, temperature {best.temperature}"
    table = Table("lead-in", *(f"{strength:g}" for strength in CALIBRATIONS), title=title)
    for name in dict.fromkeys(_named(trial.scoring) for trial in found.trials):
        row = [t.accuracy for t in found.trials if _named(t.scoring) == name]
        table.add_row(name, *(f"{accuracy:.3f}" for accuracy in row))
    return table


def _named(scoring: Scoring) -> str:
    return f"{scoring.lead_in}, listed" if scoring.list_fields else scoring.lead_in


def probe_target(
    console: Console, target: Target, model: str, file: Path, *, num_threads: int | None = None
) -> list[Coupling]:
    """Measure which fields of a target depend on one another, and name the declarations that are missing."""
    texts = read_texts(file)
    engine = opened(Console(stderr=True), model, EngineSettings(num_threads=num_threads))
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("probing pairs")
        found = anyio.run(
            lambda: probe(engine, target, texts, on_progress=lambda d, of: progress.update(task, completed=d, total=of))
        )
    table = Table("field", "depends on", "coupled", "declared", "strength", "shift in bits", "best option turns")
    for item in found:
        said = ["yes" if item.coupled else "no", "yes" if item.declared else "no"]
        figures = [f"{item.strength:.2f}", f"{item.shift:.3f}", f"{item.turned:.0%}"]
        table.add_row(SafeText(item.child), SafeText(item.parent), *said, *figures)
    console.print(table)
    for item in missing(found):
        console.print(SafeText(f'add DependsOn("{item.parent}") to {item.child}'))
    return found
