"""Tables: printed ones, and those that stand in a document between two marks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from agentform.cli.tables import Table

__all__ = ["between_marks", "change", "figures_table", "rewrite"]


def figures_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> Table:
    """Words in the first column, figures in the others."""
    table = Table(title=title, title_justify="left")
    for number, column in enumerate(columns):
        table.add_column(column, justify="left" if number == 0 else "right")
    for row in rows:
        table.add_row(*map(str, row))
    return table


def change(found: Mapping[str, float]) -> str:
    """A difference of shares in points, with its interval."""
    return f"{100 * found['mean']:+.1f} [{100 * found['low']:+.1f}, {100 * found['high']:+.1f}]"


def between_marks(text: str, name: str, section: str) -> str:
    """The document with `section` between its marks, `<!-- name: begin -->` and `end`; unchanged without them."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before, found, rest = text.partition(begin)
    _, closed, after = rest.partition(end)
    return f"{before}{begin}\n\n{section}\n\n{end}{after}" if found and closed else text


def rewrite(path: Path, name: str, section: str) -> None:
    """Write the section into the document."""
    path.write_text(between_marks(path.read_text(encoding="utf-8"), name, section), encoding="utf-8")
