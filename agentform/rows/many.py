"""`fill_many` and `decide_many`: a form, or questions, for every row of a list, a table or a file."""

from __future__ import annotations

import functools
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import aclosing
from typing import Any, TypeAlias, TypeVar, cast, overload

from agentform._util.sync import run_blocking
from agentform.forms.asked import Decisions
from agentform.forms.decide import DecideQuestion, asker
from agentform.forms.fill import Filled, Filler
from agentform.forms.langchain_decider import DeciderSource
from agentform.rows.each import RowResult, each_row
from agentform.rows.progress import counted
from agentform.rows.source import RowSource, content_of, num_rows, read_rows
from agentform.runtime.engine import Engine

__all__ = ["OnProgress", "decide_many", "decide_many_sync", "fill_many", "fill_many_sync", "fill_rows"]

T = TypeVar("T")
OnProgress: TypeAlias = bool | Callable[[int, int | None], None]
"""Whether a bar is shown on stderr; or what is told how many rows are done, and of how many, if that is known."""
_AT_ONCE = 8


@overload
async def fill_many(
    engine: Engine,
    rows: RowSource,
    form: type[T],
    *,
    column: str = ...,
    at_once: int = ...,
    progress: OnProgress = ...,
    **options: Any,
) -> list[RowResult[Filled[T]]]: ...
@overload
async def fill_many(
    engine: Engine,
    rows: RowSource,
    form: Any,
    *,
    column: str = ...,
    at_once: int = ...,
    progress: OnProgress = ...,
    **options: Any,
) -> list[RowResult[Filled[Any]]]: ...
async def fill_many(
    engine: Engine,
    rows: RowSource,
    form: Any,
    *,
    column: str = "text",
    at_once: int = _AT_ONCE,
    progress: OnProgress = False,
    **options: Any,
) -> list[RowResult[Filled[Any]]]:
    """Fill `form` from every row: several at once, with what the rows have in common read and measured once.

    `rows` are texts, conversations or mappings; a pandas, polars or Arrow table; or the `pathlib.Path` of a file of
    JSON lines, CSV or Parquet. Of a mapping, and of a table's row, `column` is read. `options` are those of `fill`.
    What is wrong with one row is in its `RowResult.error`; the others are filled all the same.

    Raises:
        InvalidInput: `rows` cannot be read.
        UnsupportedSchema: the form cannot be compiled.
        EngineError: the engine cannot serve any row; what it is about one row stays with that row.
    """
    filler = Filler(engine, form, **options)
    numbered = enumerate(read_rows(rows))
    return await _all(fill_rows(filler, numbered, column=column, at_once=at_once), progress, num_rows(rows))


def fill_many_sync(engine: Engine, rows: RowSource, form: Any, **options: Any) -> list[RowResult[Filled[Any]]]:
    """`fill_many` for code without an event loop, and for notebooks whose loop is already running."""
    return run_blocking(functools.partial(fill_many, engine, rows, form, **options))


async def decide_many(
    engine: Engine | DeciderSource,
    rows: RowSource,
    questions: Mapping[str, DecideQuestion],
    *,
    column: str = "text",
    at_once: int = _AT_ONCE,
    progress: OnProgress = False,
    **options: Any,
) -> list[RowResult[Decisions]]:
    """Answer the questions about every row, as `fill_many` fills forms; `options` are those of `decide`.

    Raises:
        InvalidInput: `rows` cannot be read, no question is asked, or a body asks none.
        UnsupportedSchema: a question has fewer than two options.
        EngineError: the engine or the decision model cannot serve any row.
    """
    ask = await asker(engine, questions, **options)

    async def work(row: Any) -> Decisions:
        return await ask(content_of(row, column))

    done = each_row(work, enumerate(read_rows(rows)), num_at_once=at_once)
    return await _all(done, progress, num_rows(rows))


def decide_many_sync(
    engine: Engine | DeciderSource, rows: RowSource, questions: Mapping[str, DecideQuestion], **options: Any
) -> list[RowResult[Decisions]]:
    """`decide_many` for code without an event loop, and for notebooks whose loop is already running."""
    return run_blocking(functools.partial(decide_many, engine, rows, questions, **options))


def fill_rows(
    filler: Filler, rows: Iterable[tuple[int, Any]], *, column: str = "text", at_once: int = _AT_ONCE
) -> AsyncGenerator[RowResult[Filled[Any]], None]:
    """The numbered rows, filled one after another as they are done, in their order."""

    async def work(row: Any) -> Filled[Any]:
        return await filler.fill(content_of(row, column))

    return each_row(work, rows, num_at_once=at_once)


async def _all(done: AsyncGenerator[RowResult[T], None], progress: OnProgress, total: int | None) -> list[RowResult[T]]:
    made: list[RowResult[T]] = []
    with counted(cast("Any", progress), total) as tell:
        async with aclosing(done):
            async for row in done:
                made.append(row)
                tell(len(made), total)
    return made
