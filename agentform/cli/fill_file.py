"""`agentform fill --in FILE --out FILE`: a form for every row of a file, going on where it was interrupted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import anyio
from rich.console import Console

from agentform.cli.fill import FillOptions
from agentform.cli.loading import opened
from agentform.cli.safe_text import SafeText
from agentform.errors import InvalidInput
from agentform.forms.fill import Filled, Filler
from agentform.rows.each import RowResult
from agentform.rows.journal import Journal, RowEntry, row_key
from agentform.rows.many import fill_rows
from agentform.rows.progress import Tell, counted
from agentform.rows.source import read_rows
from agentform.rows.write import check_out, write_results
from agentform.runtime.engine import Engine, Sampling
from agentform.schema.json_text import dumps, loads, to_jsonable
from agentform.schema.target import Target

__all__ = ["FileFill", "fill_file"]


@dataclass(frozen=True, kw_only=True)
class FileFill:
    """What is to be filled, from where, and where to."""

    source: Path
    out: Path
    column: str = "text"
    at_once: int = 8
    overwrite: bool = False

    @property
    def journal(self) -> Path:
        """Where results are kept until all are there."""
        return self.out.with_name(self.out.name + ".part")

    def check(self) -> None:
        """Check what can be known before a model is loaded.

        Raises:
            InvalidInput: the source is not there, or the results have no place or would overwrite others.
            MissingDependency: Parquet is asked for, without pyarrow.
        """
        if not self.source.is_file():
            raise InvalidInput(f"there is no file {self.source}")
        check_out(self.out)
        if self.out.exists() and not self.journal.exists() and not self.overwrite:
            raise InvalidInput(f"{self.out} exists; give another name, or --overwrite")


def fill_file(
    console: Console,
    target: Target,
    task: FileFill,
    *,
    model: str,
    options: FillOptions | None = None,
) -> int:
    """Fill the form from every row; returns how many could not be filled. Those are tried again by the next run.

    Raises:
        InvalidInput: a file cannot be read or written, or the work was begun with another input, form or model.
        MissingDependency: Parquet is read or written without pyarrow.
        EngineError: the model cannot be loaded or served.
    """
    task.check()
    options = options or FillOptions()
    second = options.loaded_decider()
    engine = opened(console, model, options.engine)
    identity = _identity(target, options, engine)

    async def run() -> int:
        try:
            return await _filled(options.filler(engine, target, second), task, identity)
        finally:
            with anyio.CancelScope(shield=True):
                await engine.aclose()

    num_failed = anyio.run(run)
    said = f": {num_failed} rows failed; the same command tries them again" if num_failed else ""
    console.print(SafeText(f"{task.out}{said}"), soft_wrap=True)
    return num_failed


def _identity(target: Target, options: FillOptions, engine: Engine) -> tuple[str, ...]:
    """What decides a row's result, beside the row; how tokens are drawn only where it was asked for."""
    form = dumps(to_jsonable(asdict(target.form)))
    drawn = () if options.sampling == Sampling() else (dumps(asdict(options.sampling)),)
    thought = () if options.effort is None else (options.effort,)
    return (form, options.instructions, engine.info.digest, options.decider or "", *drawn, *thought)


async def _filled(filler: Filler, task: FileFill, identity: tuple[str, ...]) -> int:
    keys: dict[int, str] = {}
    with Journal(task.journal) as journal, counted(True, None) as tell:
        waiting = _waiting(task, journal, identity, keys, tell)

        def take(row: RowResult[Filled[Any]]) -> None:
            journal.add({"row": row.number, "key": keys.pop(row.number), **_result(row)})
            tell(len(journal.entries), None)

        await fill_rows(filler, waiting, column=task.column, at_once=task.at_once, take=take)
        num_failed = sum("error" in entry for entry in journal.entries.values())
        write_results(task.out, read_rows(task.source), journal.entries, column=task.column)
    if not num_failed:
        task.journal.unlink()
    return num_failed


def _waiting(
    task: FileFill, journal: Journal, identity: tuple[str, ...], keys: dict[int, str], tell: Tell
) -> Iterator[tuple[int, Any]]:
    """The rows that have no result yet."""
    tell(len(journal.entries), None)
    for number, row in enumerate(read_rows(task.source)):
        key = row_key(*identity, task.column, dumps(to_jsonable(row)))
        if not journal.is_done(number, key):
            keys[number] = key
            yield number, row


def _result(row: RowResult[Filled[Any]]) -> RowEntry:
    if row.result is None:
        return {"error": {"type": type(row.error).__name__, "message": str(row.error)}}
    evidence = [to_jsonable(asdict(item)) for item in row.result.evidence]
    return {"value": loads(row.result.json_text), "evidence": evidence}
