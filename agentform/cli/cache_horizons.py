"""`agentform cache horizons`: how long a model's heads remember, and what snapshot policies would keep of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import quantiles
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from agentform.cli.safe_text import SafeText
from agentform.cli.tables import Table
from agentform.errors import MissingDependency
from agentform.runtime.snapshots.horizons import EPSILON, GATE_INPUT, Horizons, LayerHorizons
from agentform.runtime.snapshots.plan import LayerGeometry, Precision, plan_bytes
from agentform.runtime.snapshots.policy import NAMED_POLICIES, SnapshotPolicy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_horizons", "show_horizons"]

_LEVELS = ((16, "░", "grey50"), (64, "▒", "blue"), (256, "▓", "cyan"), (1024, "█", "green"), (4096, "█", "yellow"))
_LONGEST = ("█", "red")
_SHARES = (0.5, 0.25, 0.125)


def show_horizons(console: Console, name: str, plot: Path | None = None) -> None:
    """Table, picture and policies of a model given as catalogue name, folder or hub id.

    Raises:
        HorizonsUnknown: decay parameters are not found, or are of a layout that is not known.
        ModelNotFound: the name is neither in the catalogue, nor a folder, nor a hub id.
        WeightsUnavailable: weights are not on disk and cannot be fetched.
        MissingDependency: `plot` is given, and matplotlib is not installed.
    """
    from agentform.runtime.models.resolve import resolve_files
    from agentform.runtime.torch.snapshots.model_horizons import horizons_of_folder
    from agentform.runtime.torch.snapshots.state_geometry import geometry_of_folder

    folder = resolve_files(name)
    horizons = horizons_of_folder(folder)
    console.print(_layer_table(name, horizons))
    console.print(_picture(horizons))
    console.print(_policy_table(horizons, geometry_of_folder(folder, horizons)))
    if plot is not None:
        plot_horizons(horizons, plot, title=name)
        console.print(f"Wrote {plot}")


def plot_horizons(horizons: Horizons, target: Path, *, title: str) -> None:
    """A heat map per layer and head, and the distribution of horizons, as PNG.

    Raises:
        MissingDependency: matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingDependency("a plot needs matplotlib: pip install matplotlib") from error
    figure = Figure(figsize=(11, 4.5), layout="constrained")
    heat, spread = figure.subplots(1, 2, width_ratios=(2, 1))
    _plot_heat(heat, horizons)
    _plot_spread(spread, horizons)
    figure.suptitle(title)
    figure.savefig(target, format="png", dpi=130)


def _layer_table(name: str, horizons: Horizons) -> Table:
    title = f"{name}: tokens until {EPSILON:g} is left, at gate input {GATE_INPUT}"
    table = Table("layer", "kind", "units", "least", "quarter", "median", "three quarters", "most", title=title)
    for layer, each in horizons.layers.items():
        table.add_row(str(layer), each.kind, f"{len(each.tokens):,}", *map(_count, _five(each.tokens)))
    every = horizons.tokens
    table.add_section()
    table.add_row("all", "", f"{len(every):,}", *map(_count, _five(every)), style="bold")
    return table


def _picture(horizons: Horizons) -> Text:
    text = SafeText()
    for layer, each in horizons.layers.items():
        text.append(f"{layer:>5} ")
        for head in _heads(each):
            text.append(*_cell(head))
        text.append("\n")
    text.append("   one mark a head (of KDA the median of its channels); below")
    for limit, mark, color in _LEVELS:
        text.append(f" {limit:,} ").append(mark, color)
    return text.append(", longer ").append(*_LONGEST)


def _policy_table(horizons: Horizons, geometry: Mapping[int, LayerGeometry]) -> Table:
    from agentform.runtime.snapshots.allocation import expected_error

    exact = plan_bytes(NAMED_POLICIES["exact"].plan(horizons, geometry), geometry)
    least = sum(sizes.conv_bytes for sizes in geometry.values())
    budgets = {f"{share:.0%} of bytes": least + int((exact - least) * share) for share in _SHARES}
    policies = {**NAMED_POLICIES, **{label: SnapshotPolicy(budget_bytes=each) for label, each in budgets.items()}}
    precisions = [precision.name.lower() for precision in Precision]
    table = Table(
        "policy",
        "bytes",
        "smaller",
        *precisions,
        "error",
        title="What policies keep of a snapshot, in units, and the error that the model of errors expects",
    )
    for label, policy in policies.items():
        plan = policy.plan(horizons, geometry)
        size, kept = plan_bytes(plan, geometry), plan.count()
        numbers = [f"{kept[precision]:,}" for precision in Precision]
        error = f"{expected_error(plan, horizons):.2g}"
        table.add_row(label, f"{size:,}", f"{exact / size:.1f}x", *numbers, error)
    return table


def _heads(layer: LayerHorizons) -> list[float]:
    size = layer.units_per_head
    parts = [sorted(layer.tokens[first : first + size]) for first in range(0, len(layer.tokens), size)]
    return [part[len(part) // 2] for part in parts]


def _cell(horizon: float) -> tuple[str, str]:
    return next(((mark, color) for limit, mark, color in _LEVELS if horizon < limit), _LONGEST)


def _five(tokens: Sequence[float]) -> list[float]:
    middle = quantiles(tokens, n=4, method="inclusive") if len(tokens) > 1 else [tokens[0]] * 3
    return [min(tokens), *middle, max(tokens)]


def _count(horizon: float) -> str:
    return "never" if not math.isfinite(horizon) else f"{horizon:,.0f}"


def _plot_heat(axes: Axes, horizons: Horizons) -> None:
    rows = [_heads(each) for each in horizons.layers.values()]
    width = max(map(len, rows))
    values = [[math.log10(min(h, 1e9)) for h in row] + [math.nan] * (width - len(row)) for row in rows]
    image = axes.imshow(values, aspect="auto", interpolation="nearest", cmap="viridis")
    axes.set_yticks(range(len(rows)), [str(layer) for layer in horizons.layers], fontsize=7)
    axes.set(xlabel="head", ylabel="layer")
    axes.figure.colorbar(image, ax=axes, label="log10 of the horizon in tokens")


def _plot_spread(axes: Axes, horizons: Horizons) -> None:
    tokens = [min(each, 1e9) for each in horizons.tokens]
    axes.step(tokens, [(index + 1) / len(tokens) for index in range(len(tokens))], where="post")
    axes.set(xscale="log", xlabel="horizon in tokens", ylabel="share of units at or below")
    axes.grid(alpha=0.3)
