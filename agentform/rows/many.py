"""`fill_many` and `decide_many`: a form, or questions, for every row of a list, a table or a file."""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from typing import Any, Generic, TypeAlias, TypeVar, cast, overload

from agentform._util.sync import run_blocking
from agentform.forms.asked import Decisions
from agentform.forms.decide import DecideQuestion, asker
from agentform.forms.fill import Filled, Filler
from agentform.forms.langchain_decider import DeciderSource
from agentform.rows.each import RowResult, each_row
from agentform.rows.progress import Tell, counted
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
    with _collected(progress, num_rows(rows)) as made:
        await fill_rows(filler, numbered, column=column, at_once=at_once, take=made.take)
    return made.in_order()


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

    with _collected(progress, num_rows(rows)) as made:
        await each_row(work, enumerate(read_rows(rows)), num_at_once=at_once, take=made.take)
    return made.in_order()


def decide_many_sync(
    engine: Engine | DeciderSource, rows: RowSource, questions: Mapping[str, DecideQuestion], **options: Any
) -> list[RowResult[Decisions]]:
    """`decide_many` for code without an event loop, and for notebooks whose loop is already running."""
    return run_blocking(functools.partial(decide_many, engine, rows, questions, **options))


async def fill_rows(
    filler: Filler,
    rows: Iterable[tuple[int, Any]],
    *,
    column: str = "text",
    at_once: int = _AT_ONCE,
    take: Callable[[RowResult[Filled[Any]]], None],
) -> None:
    """Fill the numbered rows; `take` is given each as soon as it is done, in whatever order.

    Raises:
        EngineError: the engine cannot serve any row.
    """

    async def work(row: Any) -> Filled[Any]:
        return await filler.fill(content_of(row, column))

    await each_row(work, rows, num_at_once=at_once, take=take)


class _Collected(Generic[T]):
    """Results as they come, counted."""

    def __init__(self, tell: Tell, total: int | None) -> None:
        self._tell = tell
        self._total = total
        self._made: list[RowResult[T]] = []

    def take(self, row: RowResult[T]) -> None:
        """Take one result."""
        self._made.append(row)
        self._tell(len(self._made), self._total)

    def in_order(self) -> list[RowResult[T]]:
        """All of them, in the rows' order."""
        return sorted(self._made, key=lambda row: row.number)


@contextmanager
def _collected(progress: OnProgress, total: int | None) -> Generator[_Collected[Any], None, None]:
    with counted(cast("Any", progress), total) as tell:
        yield _Collected(tell, total)
