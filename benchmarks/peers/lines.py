"""From raw rows to the lines of the table: per line one figure per peer and round, smaller always better."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.peers.bench import Row
from benchmarks.peers.roster import OURS
from benchmarks.peers.statistics import Ratio, ratio

__all__ = ["Line", "lines_of"]

Figures = dict[str, dict[Any, float]]
"""By peer, then by round or item."""


@dataclass(frozen=True, kw_only=True)
class Line:
    """One line of the table."""

    letter: str
    what: str
    unit: str
    figures: Figures
    bar: float | None = None
    """The least ratio of the best peer over agentform that was set as the goal."""
    notes: Mapping[str, str] = field(default_factory=dict[str, str])
    """More about a peer's figure, by peer."""

    def median(self, name: str) -> float | None:
        """The peer's median figure."""
        return statistics.median(self.figures[name].values()) if self.figures.get(name) else None

    def ratio(self, name: str) -> Ratio | None:
        """The peer over agentform: above 1, agentform needs less."""
        return ratio(self.figures.get(name, {}), self.figures.get(OURS, {}))

    def as_dict(self) -> dict[str, Any]:
        """Plain data for the result file."""
        told = {
            name: {"median": self.median(name), "ratio": found.as_dict() if (found := self.ratio(name)) else None}
            for name in self.figures
        }
        return {"letter": self.letter, "what": self.what, "unit": self.unit, "bar": self.bar, "peers": told}


def lines_of(rows: Sequence[Row]) -> list[Line]:
    """Every line that there are rows for."""
    return [line for make in _MAKERS for line in make(rows) if line.figures.get(OURS)]


def _seconds(rows: Sequence[Row], work: str, case: str, scale: float = 1.0) -> Figures:
    figures: Figures = {}
    for row in rows:
        if row["work"] == work and row["case"] == case:
            figures.setdefault(row["peer"], {})[row["round"]] = row["seconds"] * scale
    return figures


def _closed(rows: Sequence[Row]) -> list[Line]:
    bars = {("warm", 9): 10.0, ("cold", 9): 3.0}
    return [
        Line(
            letter="a",
            what=f"{count} closed field{'s' if count > 1 else ''}, {state} 500-token prompt",
            unit="s",
            figures=_seconds(rows, "closed", f"{state} {count}"),
            bar=bars.get((state, count)),
        )
        for state in ("warm", "cold")
        for count in (1, 3, 6, 9)
    ]


def _decode(rows: Sequence[Row]) -> list[Line]:
    """What the tokens after the first took, per token."""
    figures: Figures = {}
    first = {(row["peer"], row["round"]): row for row in rows if row["work"] == "decode" and row["case"] == "1"}
    for row in rows:
        if row["work"] == "decode" and row["case"] != "1" and (row["peer"], row["round"]) in first:
            taken = row["seconds"] - first[row["peer"], row["round"]]["seconds"]
            figures.setdefault(row["peer"], {})[row["round"]] = 1000 * taken / (row["completion_tokens"] - 1)
    return [Line(letter="d", what="free text, one token", unit="ms", figures=figures, bar=1 / 1.2)]


_MAKERS: tuple[Callable[[Sequence[Row]], list[Line]], ...] = (_closed, _decode)
