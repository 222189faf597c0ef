"""The table, as it is printed and as it stands in docs/measurements.md, and what came of the goals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console

from agentform.cli.tables import Table
from benchmarks.common.bootstrap import Ratio
from benchmarks.peers.lines import Line, Share
from benchmarks.peers.roster import OURS, Peer

__all__ = ["as_data", "goals", "markdown", "show", "summary"]

Lines = Sequence[Line | Share]


def show(console: Console, lines: Lines, roster: Mapping[str, Peer]) -> None:
    """Print the table, narrow: a peer's figure, and how many times agentform's it is."""
    table = Table("", "", *roster)
    for line in lines:
        table.add_row(line.letter, f"{line.what}, {line.unit}", *(_short(line, name) for name in roster))
    console.print(table)


def markdown(lines: Lines, roster: Mapping[str, Peer], skipped: Mapping[str, str]) -> str:
    """The same as a Markdown table, without columns that would be empty; below it why peers were skipped."""
    there = [peer for peer in roster.values() if any(line.value(peer.name) is not None for line in lines)]
    head = ["", "", *(peer.title for peer in there)]
    rows = [[line.letter, f"{line.what}, {line.unit}", *(_cell(line, peer.name) for peer in there)] for line in lines]
    table = "\n".join(f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows))
    reasons = [f"- Skipped: {roster[name].title}: {reason}" for name, reason in skipped.items()]
    return "\n".join([table, *(["", *reasons] if reasons else [])])


def goals(lines: Lines) -> list[str]:
    """One sentence per goal: reached or missed, against the peer that comes nearest."""
    said: list[str] = []
    for line in lines:
        if isinstance(line, Share):
            continue
        ours = line.value(OURS)
        if line.limit is not None and ours is not None:
            said.append(f"{_verdict(ours <= line.limit)}: {line.what}: {ours:.3g} {line.unit}, at most {line.limit:g}")
        near = _nearest(line)
        if line.bar is not None and near is not None:
            name, found = near
            said.append(
                f"{_verdict(found.median >= line.bar)}: {line.what}: {name} takes {found.median:.2f} times what "
                f"agentform takes, goal {line.bar:g}"
            )
    return said


def summary(lines: Lines, roster: Mapping[str, Peer]) -> str:
    """The lines with a goal, in short: agentform's figure and the peer that comes nearest."""
    rows = ["| | agentform | nearest peer | ratio |", "|---|---|---|---|"]
    for line in lines:
        near = _nearest(line) if isinstance(line, Line) and line.bar is not None else None
        if near is not None and isinstance(line, Line):
            name, found = near
            rows.append(
                f"| {line.what}, {line.unit} | {_figure(line.value(OURS) or 0)} | "
                f"{roster[name].title}: {_figure(line.value(name) or 0)} | "
                f"{found.median:.2g} [{found.low:.2g}, {found.high:.2g}] |"
            )
    return "\n".join(rows)


def as_data(line: Line | Share) -> dict[str, Any]:
    """Plain data for the result file."""
    told: dict[str, Any] = {}
    for name in line.figures:
        found = line.ratio(name) if isinstance(line, Line) else line.gap(name)
        key = "ratio" if isinstance(line, Line) else "difference"
        told[name] = {"value": line.value(name), key: found.as_dict() if found else None}
    return {"letter": line.letter, "what": line.what, "unit": line.unit, "peers": told}


def _nearest(line: Line) -> tuple[str, Ratio] | None:
    """Of those that the line's goal is about, who needs least."""
    ratios = {
        name: found for name in line.figures if line.against in (None, name) and (found := line.ratio(name)) is not None
    }
    return min(ratios.items(), key=lambda item: item[1].median) if ratios else None


def _verdict(reached: bool) -> str:
    return "reached" if reached else "missed"


def _figure(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def _short(line: Line | Share, name: str) -> str:
    value = line.value(name)
    times = line.ratio(name) if isinstance(line, Line) else None
    return "–" if value is None else _figure(value) + (f"\n{times.median:.2g}×" if times else "")


def _cell(line: Line | Share, name: str) -> str:
    value = line.value(name)
    if value is None:
        return "–"
    if isinstance(line, Share):
        gap = line.gap(name)
        return f"{value:.0f}" + (f" · {gap.mean:+.0f} [{gap.low:+.0f}, {gap.high:+.0f}]" if gap else "")
    times = line.ratio(name)
    return _figure(value) + (f" · {times.median:.2g}× [{times.low:.2g}, {times.high:.2g}]" if times else "")
