"""A picture per letter: a panel per line of the table, a bar per peer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from agentform.errors import MissingDependency
from benchmarks.peers.lines import Line, Share
from benchmarks.peers.roster import OURS, Peer

__all__ = ["draw"]

_ACROSS = 4


def draw(lines: Sequence[Line | Share], roster: Mapping[str, Peer], folder: Path) -> list[Path]:
    """Write peers_a.png and so on, as far as there are lines; the files.

    Raises:
        MissingDependency: matplotlib is not installed.
    """
    try:
        import matplotlib
    except ImportError as error:
        raise MissingDependency("the plots need matplotlib: pip install matplotlib") from error
    matplotlib.use("agg")
    folder.mkdir(parents=True, exist_ok=True)
    drawn: list[Path] = []
    for letter, group in groupby(lines, key=lambda line: line.letter):
        drawn.append(folder / f"peers_{letter}.png")
        _picture(list(group), roster, drawn[-1])
    return drawn


def _picture(lines: Sequence[Line | Share], roster: Mapping[str, Peer], path: Path) -> None:
    from matplotlib import pyplot

    across = min(_ACROSS, len(lines))
    down = -(-len(lines) // across)
    size = (1.6 + 3.2 * across, 0.6 + 2.6 * down)
    figure, panels = pyplot.subplots(down, across, figsize=size, sharey=True, squeeze=False)
    for panel in panels.flat[len(lines) :]:
        panel.set_visible(False)
    for panel, line in zip(panels.flat, lines, strict=False):
        _panel(panel, line, roster)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def _panel(panel: Any, line: Line | Share, roster: Mapping[str, Peer]) -> None:
    """Whoever has no figure has an empty place."""
    values = [line.value(name) or 0.0 for name in roster]
    colours = ["tab:orange" if name == OURS else "tab:blue" for name in roster]
    places = range(len(values))
    panel.barh(places, values, color=colours)
    for place, name in zip(places, roster, strict=True):
        if (value := line.value(name)) is not None:
            panel.text(value, place, f" {value:.3g}", va="center", fontsize=7)
    panel.set_yticks(list(places), [peer.title for peer in roster.values()], fontsize=7)
    panel.invert_yaxis()
    panel.set_xlim(0, max(values, default=1.0) * 1.2 or 1.0)
    panel.set_title(f"{line.what}, {line.unit}", fontsize=7)
    panel.tick_params(axis="x", labelsize=7)
