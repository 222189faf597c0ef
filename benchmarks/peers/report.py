"""The table, as it is printed and as it stands in docs/measurements.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.table import Table

from benchmarks.peers.lines import Line
from benchmarks.peers.roster import OURS, Peer

__all__ = ["bars", "markdown", "show"]


def show(console: Console, lines: Sequence[Line], roster: Mapping[str, Peer]) -> None:
    """Print the table: a peer's figure, and how many times agentform's it is."""
    table = Table("", "", *(peer.title for peer in roster.values()))
    for line in lines:
        table.add_row(line.letter, f"{line.what}, {line.unit}", *(_cell(line, name) for name in roster))
    console.print(table)


def markdown(lines: Sequence[Line], roster: Mapping[str, Peer]) -> str:
    """The same as a Markdown table."""
    head = ["", "", *(peer.title for peer in roster.values())]
    rows = [[line.letter, f"{line.what}, {line.unit}", *(_cell(line, name) for name in roster)] for line in lines]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows))


def bars(lines: Sequence[Line]) -> list[str]:
    """What was aimed at and what came of it, against the peer that comes nearest; one sentence per line with a bar."""
    said: list[str] = []
    for line in lines:
        ratios = {name: found.median for name in line.figures if name != OURS and (found := line.ratio(name))}
        if line.bar is None or not ratios:
            continue
        nearest = min(ratios, key=lambda name: ratios[name])
        reached = "reached" if ratios[nearest] >= line.bar else "missed"
        said.append(
            f"{reached}: {line.what}: {nearest} takes {ratios[nearest]:.2f} times agentform's {line.unit}, "
            f"goal {line.bar:.2f}"
        )
    return said


def _cell(line: Line, name: str) -> str:
    median = line.median(name)
    if median is None:
        return line.notes.get(name, "–")
    told = f"{median:.3g}"
    found = line.ratio(name)
    if name != OURS and found is not None:
        told += f" · {found.median:.2g}× [{found.low:.2g}, {found.high:.2g}]"
    return told + (f" {line.notes[name]}" if name in line.notes else "")
