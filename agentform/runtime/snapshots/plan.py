"""What is kept of each unit of a recurrent state, and what that takes.

A *unit* is a head, or for KDA a key channel of a head. Its precision::

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
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

from agentform.runtime.snapshots.horizons import LayerHorizons

__all__ = [
    "BARE_POSITION_BYTES",
    "RANGE_BYTES",
    "LayerGeometry",
    "Precision",
    "PrecisionPlan",
    "forgetful_units",
    "plan_bytes",
]


RANGE_BYTES = 4
"""Of a quantised row beside its values: a float32 scale, or two bfloat16."""


class Precision(IntEnum):
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

    def unit_bytes(self, precision: Precision) -> int:
        """Bytes of one unit, without what the layer keeps once."""
        if precision in (Precision.DROP, Precision.REPLAY):
            return 0
        if precision is Precision.EXACT:
            return self.rows_per_unit * self.value_dim * self.state_itemsize
        values = self.value_dim if precision is Precision.INT8 else (self.value_dim + 1) // 2
        return self.rows_per_unit * (values + RANGE_BYTES)

    def replay_bytes(self, window_tokens: int) -> int:
        """Bytes of the layer inputs that a window needs; a convolution needs a few tokens more to get going."""
        return (window_tokens + self.conv_tokens) * self.input_bytes if window_tokens else 0


@dataclass(frozen=True, kw_only=True)
class PrecisionPlan:
    """The precision of every unit, by layer."""

    precisions: Mapping[int, tuple[Precision, ...]]
    replay_tokens: int = 0
    """Window of the layers that hold units of precision REPLAY."""

    @property
    def digest(self) -> str:
        """Identifies the plan."""
        text = repr(
            (self.replay_tokens, [(layer, bytes(precisions)) for layer, precisions in sorted(self.precisions.items())])
        )
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def count(self) -> Counter[Precision]:
        """Units by precision."""
        return Counter(precision for precisions in self.precisions.values() for precision in precisions)

    def replays(self, layer: int) -> bool:
        """Whether the layer keeps its last inputs."""
        return Precision.REPLAY in self.precisions[layer]


def forgetful_units(layer: LayerHorizons, window_tokens: int) -> list[int]:
    """Units of the heads that forget as a whole within the window."""
    size = layer.units_per_head
    longest = [max(layer.tokens[first : first + size]) for first in range(0, len(layer.tokens), size)]
    return [head * size + unit for head, most in enumerate(longest) if most <= window_tokens for unit in range(size)]


def plan_bytes(plan: PrecisionPlan, geometry: Mapping[int, LayerGeometry]) -> int:
    """Bytes of one snapshot."""
    total = 0
    for layer, precisions in plan.precisions.items():
        sizes = geometry[layer]
        total += sizes.conv_bytes + sum(
            num * sizes.unit_bytes(precision) for precision, num in Counter(precisions).items()
        )
        total += sizes.replay_bytes(plan.replay_tokens) if plan.replays(layer) else 0
    return total


BARE_POSITION_BYTES = 16
"""Bytes of a position of a model without attention: what a token costs to remember, and room for snapshots."""
