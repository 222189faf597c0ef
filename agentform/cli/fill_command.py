"""`agentform fill`: a form from texts, or from every row of a file into another."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from agentform.cli import options
from agentform.cli.engine_settings import EngineSettings
from agentform.errors import InvalidInput

__all__ = ["fill"]


def fill(
    schema: Annotated[str, typer.Argument(help="`module:attribute`, or a JSON Schema file.")],
    text: Annotated[
        list[str] | None, typer.Option(help="A text file, or - for stdin; may be given several times.")
    ] = None,
    source: Annotated[Path | None, typer.Option("--in", help="Rows to fill it from: .jsonl, .csv or .parquet.")] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Where the rows go, in any of these formats.")] = None,
    column: Annotated[str | None, typer.Option(help="The column of a row that is read; else `text`.")] = None,
    at_once: Annotated[int | None, typer.Option(min=1, help="Rows that are worked on at once; else 8.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Write --out though it is there.")] = False,
    model: options.Model = "smollm2-135m",
    instructions: Annotated[str, typer.Option(help="What the model is told beside the schema's description.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line, for other programs.")] = False,
    cache_dir: options.CacheDir = None,
    decider: options.DeciderAddress = None,
    engine: options.AskedEngine = None,
    device: options.Device = None,
    dtype: options.DType = None,
    kv_budget: options.KVBudget = None,
    host_budget: options.HostBudget = None,
    kv_bits: options.KVBits = None,
    snapshots: options.SnapshotPrecision = None,
    num_threads: options.NumThreads = None,
    reasoning_effort: options.Effort = None,
    temperature: options.Temperature = None,
    top_p: options.TopP = None,
    top_k: options.TopK = None,
    min_p: options.MinP = None,
    seed: options.Seed = None,
    repetition_penalty: options.RepetitionPenalty = None,
    frequency_penalty: options.FrequencyPenalty = None,
    presence_penalty: options.PresencePenalty = None,
) -> None:
    """Fill a form from texts and show how each value was decided, or from every row of a file into another.

    Exit status 3 says that a text or row could not be filled; the others are done all the same. Rows of a file that
    failed, or that an interruption left over, are done by the same command again.
    """
    from agentform.cli.fill import FillOptions, fill_texts
    from agentform.cli.fill_file import FileFill, fill_file
    from agentform.cli.plan import load_target

    of_rows = {"--column": column, "--at-once": at_once, "--overwrite": overwrite or None}
    _check(text, source, out, of_rows=of_rows, as_json=as_json)
    asked = FillOptions(
        instructions=instructions,
        effort=reasoning_effort,
        sampling=options.asked_sampling(
            temperature=temperature,
            top_p=top_p,
            top_k=top_k,
            min_p=min_p,
            seed=seed,
            repetition_penalty=repetition_penalty,
            frequency_penalty=frequency_penalty,
            presence_penalty=presence_penalty,
        ),
        decider=decider,
        engine=EngineSettings(
            engine=engine,
            device=device,
            dtype=dtype,
            cache_dir=cache_dir,
            kv_budget_bytes=kv_budget,
            host_budget_bytes=host_budget,
            kv_bits=kv_bits,
            snapshots=snapshots,
            num_threads=num_threads,
        ),
    )
    target = load_target(schema)
    if source is not None and out is not None:
        task = FileFill(source=source, out=out, column=column or "text", at_once=at_once or 8, overwrite=overwrite)
        num_failed = fill_file(Console(stderr=True), target, task, model=model, options=asked)
    else:
        num_failed = fill_texts(Console(), target, text or (), model=model, options=asked, as_json=as_json)
    if num_failed:
        raise typer.Exit(3)


def _check(
    text: list[str] | None, source: Path | None, out: Path | None, *, of_rows: dict[str, object], as_json: bool
) -> None:
    """Refuse options that have no effect together.

    Raises:
        BadParameter: it is not said what is to be filled from, or in two ways.
        InvalidInput: an option is of the other way.
    """
    if (source is None) != (out is None) or bool(text) == (source is not None):
        raise typer.BadParameter("give --text, once or several times, or --in and --out")
    useless = [flag for flag, value in of_rows.items() if value is not None]
    if text and useless:
        raise InvalidInput(f"{', '.join(useless)}: of rows, which --in and --out name; with --text it has no effect")
    if source is not None and as_json:
        raise InvalidInput("--json is of texts; what --out holds is said by its ending: .jsonl, .csv or .parquet")
