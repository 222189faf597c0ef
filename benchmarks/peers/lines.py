"""From raw rows to the lines of the table: one figure per peer and round."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.common.bootstrap import Gap, Ratio, gap, ratio
from benchmarks.peers.bench import Row
from benchmarks.peers.roster import OURS

__all__ = ["Figures", "Line", "Share", "lines_of"]

Figures = dict[str, dict[Any, float]]
"""By peer, then by round or item."""
_LLAMA = "llama_cpp"


@dataclass(frozen=True, kw_only=True)
class Line:
    """Something of which less is better."""

    letter: str
    what: str
    unit: str
    figures: Figures
    bar: float | None = None
    """The goal: at least this for what a peer takes over what agentform takes."""
    against: str | None = None
    """Whose ratio the goal is about; every peer's without it."""
    limit: float | None = None
    """The goal for agentform's own figure: at most this."""

    def value(self, name: str) -> float | None:
        """The peer's median figure."""
        return statistics.median(self.figures[name].values()) if self.figures.get(name) else None

    def ratio(self, name: str) -> Ratio | None:
        """The peer over agentform: above 1, agentform needs less."""
        return None if name == OURS else ratio(self.figures.get(name, {}), self.figures.get(OURS, {}))


@dataclass(frozen=True, kw_only=True)
class Share:
    """A share of items, in percent, of which more is better."""

    letter: str
    what: str
    figures: Figures
    """1 or 0 per item."""
    unit: str = "%"

    def value(self, name: str) -> float | None:
        """The peer's share."""
        return 100 * statistics.fmean(self.figures[name].values()) if self.figures.get(name) else None

    def gap(self, name: str) -> Gap | None:
        """The peer minus agentform, in points, over the items that both were asked."""
        return None if name == OURS else gap(self.figures.get(name, {}), self.figures.get(OURS, {}))


def lines_of(rows: Sequence[Row], faults: Sequence[Row]) -> list[Line | Share]:
    """Every line that there are rows of agentform's for."""
    made = [line for make in _MAKERS for line in make(rows)]
    made += [*_validity(rows, faults), _cached(rows)]
    return sorted((line for line in made if line.figures.get(OURS)), key=lambda line: line.letter)


def _of(rows: Sequence[Row], work: str, case: str) -> list[Row]:
    return [row for row in rows if row["work"] == work and row["case"] == case]


def _figures(rows: Sequence[Row], value: Callable[[Row], float]) -> Figures:
    figures: Figures = {}
    for row in rows:
        figures.setdefault(row["peer"], {})[row["round"]] = value(row)
    return figures


def _seconds(rows: Sequence[Row], work: str, case: str) -> Figures:
    return _figures(_of(rows, work, case), lambda row: row["seconds"])


def _closed(rows: Sequence[Row]) -> list[Line]:
    bars = {("warm", 9): 10.0, ("cold", 9): 3.0}
    lines = [
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
    six, twelve = (_seconds(rows, "closed", f"warm {count}").get(OURS, {}) for count in (6, 12))
    slope = {turn: taken / six[turn] for turn, taken in twelve.items() if turn in six}
    return [*lines, Line(letter="a", what="12 closed fields over 6, warm", unit="×", figures={OURS: slope}, limit=1.25)]


def _calls(rows: Sequence[Row]) -> list[Line]:
    return [
        Line(letter="b", what=f"a mixed call, {told}", unit="s", figures=_seconds(rows, "calls", case), bar=1.5)
        for case, told in (("known", "tools known"), ("new", "tools never seen"))
    ]


def _conversation(rows: Sequence[Row]) -> list[Line]:
    """Both requests of a turn together."""
    answers = {(row["peer"], row["round"]): row["seconds"] for row in _of(rows, "conversation", "answer")}
    calls = [row for row in _of(rows, "conversation", "call") if (row["peer"], row["round"]) in answers]
    figures = _figures(calls, lambda row: row["seconds"] + answers[row["peer"], row["round"]])
    return [Line(letter="c", what="a turn of a conversation", unit="s", figures=figures, bar=1.0)]


def _decode(rows: Sequence[Row]) -> list[Line]:
    """What the tokens after the first took, per token."""
    first = {(row["peer"], row["round"]): row["seconds"] for row in _of(rows, "decode", "1")}
    later = [
        row for row in rows if row["work"] == "decode" and row["case"] != "1" and (row["peer"], row["round"]) in first
    ]
    figures = _figures(
        later,
        lambda row: 1000 * (row["seconds"] - first[row["peer"], row["round"]]) / (row["completion_tokens"] - 1),
    )
    return [
        Line(letter="d", what="free text, one token", unit="ms", figures=figures, bar=round(1 / 1.2, 3), against=_LLAMA)
    ]


def _prefill(rows: Sequence[Row]) -> list[Line]:
    return [
        Line(
            letter="e",
            what=f"reading a prompt of {tokens} tokens, per token",
            unit="ms",
            figures=_figures(
                _of(rows, "prefill", str(tokens)),
                lambda row: 1000 * row["seconds"] / row["length"],
            ),
            bar=2.0,
            against=_LLAMA,
        )
        for tokens in (128, 512, 1024, 2048)
    ]


def _start(rows: Sequence[Row]) -> list[Line]:
    peak = _figures(_of(rows, "memory", "peak"), lambda row: row["bytes"] / 2**20)
    four_bit = _figures(_of(rows, "memory", "four_bit"), lambda row: row["bytes"] / 2**20)
    packed = {**peak, **four_bit} if four_bit else {}
    bar = round(1 / 1.5, 3)
    return [
        Line(
            letter="f",
            what="process start to first call",
            unit="s",
            figures=_seconds(rows, "start", "first call"),
            limit=3.0,
        ),
        Line(letter="f", what="`agentform plan`", unit="s", figures=_seconds(rows, "plan", "plan"), limit=0.5),
        Line(letter="g", what="memory peak", unit="MiB", figures=peak),
        Line(letter="g", what="memory peak, 4-bit weights alone", unit="MiB", figures=packed, bar=bar, against=_LLAMA),
    ]


def _validity(rows: Sequence[Row], faults: Sequence[Row]) -> list[Share]:
    """What a peer failed at counts as not valid and not right."""
    shares: list[Share] = []
    for letter, what, key, works in (
        ("b", "mixed calls right (BFCL's rule)", "right", ("calls",)),
        ("h", "closed forms valid", "valid", ("closed",)),
        ("h", "mixed calls valid", "valid", ("calls",)),
    ):
        asked = [row for row in (*rows, *faults) if row["work"] in works]
        figures: Figures = {}
        for row in asked:
            figures.setdefault(row["peer"], {})[row["case"], row["round"]] = float(row.get(key, False))
        shares.append(Share(letter=letter, what=what, figures=figures))
    return shares


def _cached(rows: Sequence[Row]) -> Share:
    """Of the first request of each turn but the first turn."""
    asked = [row for row in _of(rows, "conversation", "call") if row["round"] and row["cached_tokens"] is not None]
    figures = _figures(asked, lambda row: row["cached_tokens"] / row["prompt_tokens"])
    return Share(letter="c", what="of a turn's prompt found in the cache", figures=figures)


_MAKERS: tuple[Callable[[Sequence[Row]], list[Line]], ...] = (
    _closed,
    _calls,
    _conversation,
    _decode,
    _prefill,
    _start,
)
