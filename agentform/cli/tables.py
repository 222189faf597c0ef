"""Tables that lose nothing on a narrow terminal.

Rich cuts words that do not fit a column. Here every column gets at least the room of its longest word, without the
space around it if need be; where the columns do not stand side by side at all, each row is written as a paragraph, one
named cell a line.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from rich import table as rich_table
from rich.measure import Measurement
from rich.text import Text

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult

__all__ = ["Table"]

_UNBOUNDED = 100_000


class Table(rich_table.Table):
    """`rich.table.Table`, fitted to the width it is printed in."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Called by rich to print it."""
        widths, padding = [column.width for column in self.columns], self.padding
        ranges = [self._range(console, options, column) for column in self.columns]
        if self._fits(console, options, ranges):
            yield from super().__rich_console__(console, options)
        else:
            yield from self._paragraphs(console)
        self.padding = padding
        for column, width in zip(self.columns, widths, strict=True):
            column.width = width

    def _fits(self, console: Console, options: ConsoleOptions, ranges: Sequence[tuple[int, int]]) -> bool:
        """Whether the columns can stand side by side; they are given their widths."""
        for padding in (self.padding, (0, 0, 0, 0)):
            self.padding = padding
            room = options.max_width - self._beside(console, options, ranges)
            if sum(least for least, _ in ranges) > room:
                continue
            if sum(most for _, most in ranges) > room:
                for column, width in zip(self.columns, _shared(ranges, room), strict=True):
                    column.width = width
                    column.overflow = column.overflow if column.no_wrap else "fold"
            return True
        return False

    def _range(self, console: Console, options: ConsoleOptions, column: rich_table.Column) -> tuple[int, int]:
        """Fewest and most characters that a column needs."""
        if column.width is not None:
            return column.width, column.width
        wide = options.update(width=_UNBOUNDED)
        cells = [Measurement.get(console, wide, cell) for cell in (column.header, *column.cells)]
        most = max((cell.maximum for cell in cells), default=0)
        least = most if column.no_wrap else max((cell.minimum for cell in cells), default=0)
        return max(least, column.min_width or 0), max(most, column.min_width or 0)

    def _beside(self, console: Console, options: ConsoleOptions, ranges: Sequence[tuple[int, int]]) -> int:
        """Characters of borders and padding."""
        whole = rich_table.Table.__rich_measure__(self, console, options.update(width=_UNBOUNDED))
        return whole.maximum - sum(most for _, most in ranges)

    def _paragraphs(self, console: Console) -> Iterable[Text]:
        if self.title:
            yield _text(console, self.title)
        for row in zip(*(column.cells for column in self.columns), strict=True):
            for column, cell in zip(self.columns, row, strict=True):
                name, value = _text(console, column.header), _text(console, cell)
                if value.plain.strip():
                    yield Text.assemble(name, ": " if name.plain else "", value, overflow="fold")
            yield Text()
        if self.caption:
            yield _text(console, self.caption)


def _shared(ranges: Sequence[tuple[int, int]], room: int) -> list[int]:
    """The width of each column: its least, and of what is left as much as it has use for, the narrowest first."""
    widths = [least for least, _ in ranges]
    left = room - sum(widths)
    order = sorted(range(len(ranges)), key=lambda at: ranges[at][1] - ranges[at][0])
    for done, at in enumerate(order):
        more = min(ranges[at][1] - ranges[at][0], left // (len(order) - done))
        widths[at] += more
        left -= more
    return widths


def _text(console: Console, cell: RenderableType) -> Text:
    return cell if isinstance(cell, Text) else console.render_str(str(cell))
