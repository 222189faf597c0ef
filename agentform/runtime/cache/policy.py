"""What is kept of each unit of a recurrent state, and how the choice is stated.

A *unit* is a head, or for KDA a key channel of a head. Its tier::

    DROP      nothing; zero after a restore
    REPLAY    nothing of its own: the layer's last inputs are kept, and the unit is rebuilt from zero with them
    INT4      4 bits a value, between the least and the greatest of its key row
    INT8      8 bits a value and one scale per key row
    EXACT     as the model holds it

Replay keeps one window of layer inputs for all units of the layer, so what it costs does not depend on how many units
use it. Only a head that forgets as a whole within the window is rebuilt: in a delta rule key channels of a head read
one another.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Literal

from agentform.errors import InvalidRequest
from agentform.runtime.cache.horizon import Horizons, LayerHorizons

__all__ = [
    "NAMED_POLICIES",
    "LayerGeometry",
    "SnapshotPolicy",
    "Tier",
    "TierPlan",
    "forgetful_units",
    "named_policy",
    "plan_bytes",
]

RANGE_BYTES = 4
"""Of a quantised row beside its values: a float32 scale, or two bfloat16."""


class Tier(IntEnum):
    """What is kept of a unit; see the module docstring."""

    DROP = 0
    REPLAY = 1
    INT4 = 2
    INT8 = 3
    EXACT = 4


@dataclass(frozen=True, kw_only=True)
class LayerGeometry:
    """Sizes of one recurrent layer's state; its rows are key channels, head by head."""

    num_heads: int
    key_dim: int
    value_dim: int
    units_per_head: int
    input_bytes: int
    """Bytes of one token's input to the layer."""
    state_itemsize: int = 4
    conv_bytes: int = 0
    """Bytes of the convolution's state, which is always exact."""
    conv_tokens: int = 0
    """Tokens before a token that its convolution reads."""

    @property
    def rows_per_unit(self) -> int:
        """Key rows of a unit."""
        return self.key_dim // self.units_per_head

    def unit_bytes(self, tier: Tier) -> int:
        """Bytes of one unit, without what the layer keeps once."""
        if tier in (Tier.DROP, Tier.REPLAY):
            return 0
        if tier is Tier.EXACT:
            return self.rows_per_unit * self.value_dim * self.state_itemsize
        values = self.value_dim if tier is Tier.INT8 else (self.value_dim + 1) // 2
        return self.rows_per_unit * (values + RANGE_BYTES)

    def replay_bytes(self, window_tokens: int) -> int:
        """Bytes of the layer inputs that a window needs; a convolution needs a few tokens more to get going."""
        return (window_tokens + self.conv_tokens) * self.input_bytes if window_tokens else 0


@dataclass(frozen=True, kw_only=True)
class TierPlan:
    """The tier of every unit, by layer."""

    tiers: Mapping[int, tuple[Tier, ...]]
    replay_tokens: int = 0
    """Window of the layers that hold units of tier REPLAY."""

    @property
    def digest(self) -> str:
        """Identifies the plan."""
        text = repr((self.replay_tokens, [(layer, bytes(tiers)) for layer, tiers in sorted(self.tiers.items())]))
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def count(self) -> Counter[Tier]:
        """Units by tier."""
        return Counter(tier for tiers in self.tiers.values() for tier in tiers)

    def replays(self, layer: int) -> bool:
        """Whether the layer keeps its last inputs."""
        return Tier.REPLAY in self.tiers[layer]


@dataclass(frozen=True, kw_only=True)
class SnapshotPolicy:
    """How tiers are chosen: by thresholds on the horizon, or by a number of bytes.

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

    def plan(self, horizons: Horizons, geometry: Mapping[int, LayerGeometry]) -> TierPlan:
        """Choose tiers; `geometry` has the same layers. Raises InvalidRequest for a budget that cannot be met."""
        if self.budget_bytes is not None:
            from agentform.runtime.cache.allocation import allocate  # needs numpy

            return allocate(self.budget_bytes, horizons, geometry)
        return TierPlan(
            tiers={layer: self._tiers(each, geometry[layer]) for layer, each in horizons.layers.items()},
            replay_tokens=self.replay_tokens,
        )

    def _tiers(self, layer: LayerHorizons, geometry: LayerGeometry) -> tuple[Tier, ...]:
        tiers = [self._tier(horizon) for horizon in layer.tokens]
        forgetful = forgetful_units(layer, self.replay_tokens)
        saved = sum(geometry.unit_bytes(tiers[unit]) for unit in forgetful)
        if saved > geometry.replay_bytes(self.replay_tokens):
            for unit in forgetful:
                tiers[unit] = Tier.REPLAY
        return tuple(tiers)

    def _tier(self, horizon: float) -> Tier:
        if horizon < self.drop_below_tokens:
            return Tier.DROP
        if horizon > self.exact_above_tokens:
            return Tier.EXACT
        return Tier.INT4 if horizon < self.int4_below_tokens else _KEEP[self.keep]


_KEEP = {"int4": Tier.INT4, "int8": Tier.INT8, "exact": Tier.EXACT}

NAMED_POLICIES: Mapping[str, SnapshotPolicy] = {
    "exact": SnapshotPolicy(keep="exact"),
    "int8": SnapshotPolicy(),
    "int4": SnapshotPolicy(keep="int4"),
    "drop": SnapshotPolicy(keep="exact", drop_below_tokens=64),
    "balanced": SnapshotPolicy(int4_below_tokens=256, replay_tokens=32),
    "small": SnapshotPolicy(keep="int4", drop_below_tokens=32),
}


def named_policy(name: str) -> SnapshotPolicy:
    """Raises InvalidRequest with the names that there are."""
    if name not in NAMED_POLICIES:
        raise InvalidRequest(f"no snapshot policy {name!r}; there are {', '.join(NAMED_POLICIES)}")
    return NAMED_POLICIES[name]


def forgetful_units(layer: LayerHorizons, window_tokens: int) -> list[int]:
    """Units of the heads that forget as a whole within the window."""
    size = layer.units_per_head
    longest = [max(layer.tokens[first : first + size]) for first in range(0, len(layer.tokens), size)]
    return [head * size + unit for head, most in enumerate(longest) if most <= window_tokens for unit in range(size)]


def plan_bytes(plan: TierPlan, geometry: Mapping[int, LayerGeometry]) -> int:
    """Bytes of one snapshot."""
    total = 0
    for layer, tiers in plan.tiers.items():
        sizes = geometry[layer]
        total += sizes.conv_bytes + sum(num * sizes.unit_bytes(tier) for tier, num in Counter(tiers).items())
        total += sizes.replay_bytes(plan.replay_tokens) if plan.replays(layer) else 0
    return total
