"""How the choice of what a snapshot keeps is stated: by thresholds on the horizon, or by bytes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from agentform.errors import InvalidRequest
from agentform.runtime.snapshots.horizons import Horizons, LayerHorizons
from agentform.runtime.snapshots.plan import LayerGeometry, Precision, PrecisionPlan, forgetful_units

__all__ = ["NAMED_POLICIES", "SnapshotPolicy", "named_policy"]


@dataclass(frozen=True, kw_only=True)
class SnapshotPolicy:
    """How precisions are chosen: by thresholds on the horizon, or by a number of bytes.

    ::

        horizon   0 ...... drop_below ...... int4_below ...... exact_above ...... infinite
                    DROP              INT4              keep               EXACT

    and REPLAY up to `replay_tokens`, in layers where that takes fewer bytes.
    """

    keep: Literal["int4", "int8", "exact"] = "int8"
    drop_below_tokens: float = 0.0
    int4_below_tokens: float = 0.0
    exact_above_tokens: float = math.inf
    replay_tokens: int = 0
    budget_bytes: int | None = None
    """At most so many bytes per snapshot, with the least expected error; takes the place of all thresholds."""

    def __post_init__(self) -> None:
        if self.budget_bytes is not None and replace(self, budget_bytes=None) != SnapshotPolicy():
            raise InvalidRequest("a snapshot policy is stated by thresholds or by budget_bytes, not by both")
        if self.keep not in _KEEP:
            raise InvalidRequest(f"keep is 'int4', 'int8' or 'exact', not {self.keep!r}")
        thresholds = (self.drop_below_tokens, self.int4_below_tokens, self.exact_above_tokens, self.replay_tokens)
        if min(thresholds) < 0:
            raise InvalidRequest("thresholds of a snapshot policy are numbers of tokens, at least 0")

    def plan(self, horizons: Horizons, geometry: Mapping[int, LayerGeometry]) -> PrecisionPlan:
        """Choose precisions; `geometry` has the same layers.

        Raises:
            InvalidRequest: for a budget that cannot be met.
        """
        if self.budget_bytes is not None:
            from agentform.runtime.snapshots.allocation import allocate  # needs numpy

            return allocate(self.budget_bytes, horizons, geometry)
        return PrecisionPlan(
            precisions={layer: self._precisions(each, geometry[layer]) for layer, each in horizons.layers.items()},
            replay_tokens=self.replay_tokens,
        )

    def _precisions(self, layer: LayerHorizons, geometry: LayerGeometry) -> tuple[Precision, ...]:
        precisions = [self._precision(horizon) for horizon in layer.tokens]
        forgetful = forgetful_units(layer, self.replay_tokens)
        saved = sum(geometry.unit_bytes(precisions[unit]) for unit in forgetful)
        if saved > geometry.replay_bytes(self.replay_tokens):
            for unit in forgetful:
                precisions[unit] = Precision.REPLAY
        return tuple(precisions)

    def _precision(self, horizon: float) -> Precision:
        if horizon < self.drop_below_tokens:
            return Precision.DROP
        if horizon > self.exact_above_tokens:
            return Precision.EXACT
        return Precision.INT4 if horizon < self.int4_below_tokens else _KEEP[self.keep]


_KEEP = {"int4": Precision.INT4, "int8": Precision.INT8, "exact": Precision.EXACT}

NAMED_POLICIES: Mapping[str, SnapshotPolicy] = {
    "exact": SnapshotPolicy(keep="exact"),
    "int8": SnapshotPolicy(),
    "int4": SnapshotPolicy(keep="int4"),
    "drop": SnapshotPolicy(keep="exact", drop_below_tokens=64),
    "balanced": SnapshotPolicy(int4_below_tokens=256, replay_tokens=32),
    "small": SnapshotPolicy(keep="int4", drop_below_tokens=32),
}


def named_policy(name: str) -> SnapshotPolicy:
    """The policy of a name.

    Raises:
        InvalidRequest: there is no such policy; the message has the names that there are.
    """
    if name not in NAMED_POLICIES:
        raise InvalidRequest(f"no snapshot policy {name!r}; there are {', '.join(NAMED_POLICIES)}")
    return NAMED_POLICIES[name]
