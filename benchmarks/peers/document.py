"""Table, goals and pictures from results/peers.json into the documents: `python -m benchmarks.peers.document`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.common.harness import PLOTS, RESULTS, ROOT
from benchmarks.common.tables import between_marks, rewrite
from benchmarks.peers.lines import Line, Share, lines_of
from benchmarks.peers.plots import draw
from benchmarks.peers.report import goals, markdown, summary
from benchmarks.peers.roster import read_roster

__all__ = ["DOCUMENT", "README", "document", "render"]

DOCUMENT = ROOT / "docs" / "measurements.md"
README = ROOT / "README.md"
_MARKS = "peers"


def document(found: Mapping[str, Any]) -> None:
    """Write the pictures and what stands between the marks of both documents, from the contents of the result file."""
    figures = found["figures"]
    lines = lines_of(figures["rows"], figures["faults"])
    roster = {name: peer for name, peer in read_roster().items() if name in figures["versions"]}
    pictures = draw(lines, roster, PLOTS)
    rewrite(DOCUMENT, _MARKS, "\n".join(_section(found, lines, pictures)))
    rewrite(README, _MARKS, summary(lines, roster))


def render(text: str, section: str) -> str:
    """The document with `section` between its marks; unchanged without them."""
    return between_marks(text, _MARKS, section)


def _section(found: Mapping[str, Any], lines: list[Line | Share], pictures: list[Path]) -> Iterator[str]:
    figures, machine = found["figures"], found["machine"]
    yield (
        f"Run of {found['when'][:10]} at commit {found['commit'][:10]} on {machine['cpu']}, {machine['cores']} cores, "
        f"{_threads(figures['threads'])}."
    )
    yield ""
    yield markdown(lines, read_roster(), figures["skipped"])
    yield ""
    yield from (f"- {said}" for said in goals(lines))
    yield ""
    yield from (f"- {read_roster()[name].title}: {_versions(told)}" for name, told in figures["versions"].items())
    if figures["faults"]:
        yield ""
        yield f"Tasks that a peer failed at, which count as invalid: {_faults(figures['faults'])}."
    for path in pictures:
        yield ""
        yield f"![{path.stem}](plots/{path.name})"


def _threads(told: Mapping[str, int]) -> str:
    """By the number that each had, the works."""
    works = {num: ", ".join(work for work, had in told.items() if had == num) for num in sorted({*told.values()})}
    if len(works) == 1:
        return f"threads for each: {next(iter(works))}"
    return "threads for each: " + "; ".join(f"{num} in {where}" for num, where in works.items())


def _versions(told: Mapping[str, str]) -> str:
    return ", ".join(f"{package} {version}" for package, version in told.items())


def _faults(faults: list[dict[str, Any]]) -> str:
    counts: dict[str, int] = {}
    for fault in faults:
        key = f"{fault['peer']} at {fault['work']}"
        counts[key] = counts.get(key, 0) + 1
    return ", ".join(f"{key}: {count}" for key, count in counts.items())


if __name__ == "__main__":
    document(json.loads((RESULTS / "peers.json").read_text(encoding="utf-8")))
