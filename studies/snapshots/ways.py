"""The ways to make a snapshot smaller that are compared; all go through the product's own codec."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from agentform.runtime.snapshots.plan import Precision, PrecisionPlan, plan_bytes
from agentform.runtime.snapshots.policy import SnapshotPolicy
from agentform.runtime.torch.snapshots.decay_codec import DecayCodec
from studies.snapshots.lab import Lab

__all__ = ["KEPT", "REFRESH_TOKENS", "Way", "ranked", "ways"]

REFRESH_TOKENS = 64
KEPT = (0.75, 0.5, 0.38, 0.25, 0.125)
"""Shares of the heads that are kept where some are dropped; 0.38 is the published 2.6x."""
_SEEDS = (0, 1)
_RANDOM, _DROP, _REFRESH = "random", "drop", "drop + refresh"
_QUANTISED = {Precision.INT8: "int8", Precision.INT4: "int4"}
_OURS, _OURS_REFRESH = "ours", "ours + refresh"


@dataclass(frozen=True, kw_only=True)
class Way:
    """A codec and how it is restored."""

    name: str
    codec: DecayCodec
    num_bytes: int
    """Of one snapshot."""
    kept: float
    """Share of the heads that are kept, in whatever precision."""
    refresh_tokens: int = 0
    seed: int = 0

    @property
    def key(self) -> str:
        """Names it among all ways."""
        return f"{self.name}/{self.kept:.3f}/{self.num_bytes}/{self.seed}"


def ways(lab: Lab) -> list[Way]:
    """Every way at every number of bytes; `ours` at each number that another one takes."""
    others = list(_others(lab))
    budgets = sorted({way.num_bytes for way in others})
    ours = [_ours(lab, budget) for budget in budgets]
    refreshed = [replace(way, name=_OURS_REFRESH, refresh_tokens=REFRESH_TOKENS) for way in ours if way.kept < 1]
    return [*others, *ours, *refreshed]


def ranked(lab: Lab, share: float, precision: Precision, *, order: np.random.Generator | None = None) -> PrecisionPlan:
    """The share of the heads with the longest horizons in `precision`, the others dropped; in `order` if given."""
    units = [
        (tokens, layer, unit) for layer, each in lab.horizons.layers.items() for unit, tokens in enumerate(each.tokens)
    ]
    units.sort(reverse=True)
    chosen = units if order is None else [units[index] for index in order.permutation(len(units))]
    kept = {(layer, unit) for _, layer, unit in chosen[: round(share * len(units))]}
    return PrecisionPlan(
        precisions={
            layer: tuple(precision if (layer, unit) in kept else Precision.DROP for unit in range(len(each.tokens)))
            for layer, each in lab.horizons.layers.items()
        }
    )


def _others(lab: Lab) -> Iterator[Way]:
    for share in KEPT:
        dropped = ranked(lab, share, Precision.EXACT)
        yield _way(lab, _DROP, dropped)
        yield _way(lab, _REFRESH, dropped, refresh=REFRESH_TOKENS)
        for precision, name in _QUANTISED.items():
            yield _way(lab, f"{name} + drop", ranked(lab, share, precision))
        for seed in _SEEDS:
            plan = ranked(lab, share, Precision.EXACT, order=np.random.default_rng(seed))
            yield _way(lab, _RANDOM, plan, seed=seed)
    for precision, name in _QUANTISED.items():
        yield _way(lab, name, ranked(lab, 1.0, precision))


def _ours(lab: Lab, budget: int) -> Way:
    plan = SnapshotPolicy(budget_bytes=budget).plan(lab.horizons, lab.geometry)
    way = _way(lab, _OURS, plan)
    assert way.num_bytes <= budget, "a plan above its budget"
    return replace(way, num_bytes=budget)


def _way(lab: Lab, name: str, plan: PrecisionPlan, *, refresh: int = 0, seed: int = 0) -> Way:
    count = plan.count()
    return Way(
        name=name,
        codec=DecayCodec(plan, lab.horizons),
        num_bytes=plan_bytes(plan, lab.geometry),
        kept=1 - count[Precision.DROP] / count.total(),
        refresh_tokens=refresh,
        seed=seed,
    )
