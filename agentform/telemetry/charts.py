"""Two kinds of chart as SVG text: lines of shares over time, and bars of counts stacked over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

__all__ = ["lines", "stacked_bars"]

_WIDTH, _HEIGHT = 900, 220
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 12, 10, 28
_NUM_COLOURS = 8
_NUM_TICKS = 6


def lines(times_s: Sequence[float], series: Mapping[str, Sequence[float | None]]) -> str:
    """A line per series, values from 0 to 1 at `times_s`; `None` is skipped, and a lone value is a dot."""
    scale = _Times(times_s)
    marks = [_grid(share, f"{share:.0%}") for share in (0, 0.25, 0.5, 0.75, 1)]
    for number, (name, values) in enumerate(series.items()):
        points = [(scale.x(at), _y(v), v, at) for at, v in zip(times_s, values, strict=True) if v is not None]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y, _, _ in points)
        marks.append(f'<polyline class="line s{number % _NUM_COLOURS}" points="{path}"/>')
        marks += [
            f'<circle class="dot s{number % _NUM_COLOURS}" cx="{x:.1f}" cy="{y:.1f}" r="2.5">'
            f"<title>{escape(name)}: {v:.1%} at {at - times_s[0]:.0f} s</title></circle>"
            for x, y, v, at in points
        ]
    return _drawing([*marks, *scale.ticks()], list(series))


def stacked_bars(times_s: Sequence[float], series: Mapping[str, Sequence[int]]) -> str:
    """A bar at each time, its parts the series' counts in their order, the first lowest."""
    scale = _Times(times_s)
    most = max((sum(column) for column in zip(*series.values(), strict=True)), default=0) or 1
    width = max(1.0, min(24.0, 0.8 * (_WIDTH - _LEFT - _RIGHT) / max(1, len(times_s))))
    marks = [_grid(count / most, f"{count:,}") for count in sorted({0, most // 2, most})]  # whole, and each once
    below = [0] * len(times_s)
    for number, (name, counts) in enumerate(series.items()):
        for index, count in enumerate(counts):
            if not count:
                continue
            top, bottom = _y((below[index] + count) / most), _y(below[index] / most)
            marks.append(
                f'<rect class="bar s{number % _NUM_COLOURS}" x="{scale.x(times_s[index]) - width / 2:.1f}" '
                f'y="{top:.1f}" width="{width:.1f}" height="{bottom - top:.1f}">'
                f"<title>{escape(name)}: {count:,} at {times_s[index] - times_s[0]:.0f} s</title></rect>"
            )
            below[index] += count
    return _drawing([*marks, *scale.ticks()], list(series))


class _Times:
    """Places times on the horizontal axis, with room for half a bar at both ends."""

    def __init__(self, times_s: Sequence[float]) -> None:
        self._first = times_s[0] if times_s else 0.0
        self._span = (times_s[-1] - self._first if times_s else 0.0) or 1.0

    def x(self, at_s: float) -> float:
        return _LEFT + 14 + (at_s - self._first) / self._span * (_WIDTH - _LEFT - _RIGHT - 28)

    def ticks(self) -> list[str]:
        shares = [number / (_NUM_TICKS - 1) for number in range(_NUM_TICKS)]
        return [
            f'<text class="tick" x="{self.x(self._first + share * self._span):.1f}" y="{_HEIGHT - 8}" '
            f'text-anchor="middle">{_duration(share * self._span)}</text>'
            for share in shares
        ]


def _duration(seconds: float) -> str:
    if seconds >= 600:
        return f"{seconds / 60:.0f} min"
    return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.2g} s"


def _y(share: float) -> float:
    return _TOP + (1 - share) * (_HEIGHT - _TOP - _BOTTOM)


def _grid(share: float, label: str) -> str:
    y = _y(share)
    return (
        f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        f'<text class="tick" x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{label}</text>'
    )


def _drawing(marks: Sequence[str], names: Sequence[str]) -> str:
    keys = "".join(
        f'<span class="key"><span class="swatch s{number % _NUM_COLOURS}"></span>{escape(name)}</span>'
        for number, name in enumerate(names)
    )
    inside = "\n".join(marks)
    return f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img">\n{inside}\n</svg>\n<p class="keys">{keys}</p>'
