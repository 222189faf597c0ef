"""How far the rows are: a bar on stderr, or whatever else wants to know."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TypeAlias

__all__ = ["Tell", "counted"]

Tell: TypeAlias = Callable[[int, int | None], None]


@contextmanager
def counted(progress: bool | Tell, total: int | None) -> Generator[Tell, None, None]:
    """What is told how many rows are done, of how many where that is known; a bar if `progress` is true."""
    if callable(progress):
        yield progress
    elif not progress:
        yield lambda done, of: None
    else:
        with _bar(total) as tell:
            yield tell


@contextmanager
def _bar(total: int | None) -> Generator[Tell, None, None]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("rows", total=total)
        yield lambda done, of: bar.update(task, completed=done, total=of)
