"""How long a recurrent head remembers, read off its weights.

A head multiplies its state by exp(g) at every token, and how negative g is sits in two parameters and a gate input
`a` that depends on the token. With `a` fixed, the *static horizon* is the number of tokens after which only `EPSILON`
of a contribution is left::

    gated delta   g = -exp(A_log) * softplus(a + dt_bias)                    per head
    KDA           the same                                                   per head and key channel
    KDA, bounded  g = lower_bound * sigmoid(exp(A_log) * (a + dt_bias))      per head and key channel
    Mamba2        g = -exp(A_log) * clamp(softplus(a + dt_bias), limits)     per head

    horizon = ln(EPSILON) / g

No data and no prompt are needed. Source: Decay-Aware State Compression, arXiv 2608.30386; there, too, `a` is slightly
negative, which keeps more than the average token would.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

__all__ = [
    "EPSILON",
    "GATE_INPUT",
    "Horizons",
    "LayerHorizons",
    "RecurrenceKind",
    "bounded_decay",
    "horizon_tokens",
    "softplus_decay",
]

EPSILON = 1e-3
"""What is left of a contribution when it counts as forgotten."""
GATE_INPUT = -0.3
"""The gate input `a` at which horizons are told."""

RecurrenceKind = Literal["gated delta", "KDA", "Mamba2"]


@dataclass(frozen=True, kw_only=True)
class LayerHorizons:
    """Horizons of one layer, in tokens, by unit: a head, or for KDA a key channel of a head."""

    kind: RecurrenceKind
    num_heads: int
    tokens: tuple[float, ...]
    """Heads in order, and within a head its key channels; infinite where nothing is forgotten."""

    @property
    def units_per_head(self) -> int:
        """1, or the key channels of a head."""
        return len(self.tokens) // self.num_heads


@dataclass(frozen=True, kw_only=True)
class Horizons:
    """Horizons of a model's recurrent layers, by their index in the model."""

    layers: Mapping[int, LayerHorizons]
    digest: str
    """Identifies the decay parameters that they were computed from."""

    @property
    def tokens(self) -> list[float]:
        """Those of all layers, ascending."""
        return sorted(each for layer in self.layers.values() for each in layer.tokens)

    def quantile(self, share: float) -> float:
        """The horizon that `share` of the units lie below; 0.5 is the median."""
        ordered = self.tokens
        return ordered[min(int(share * len(ordered)), len(ordered) - 1)]


def softplus_decay(
    a_log: float, dt_bias: float, *, gate_input: float = GATE_INPUT, limits: tuple[float, float] = (0.0, math.inf)
) -> float:
    """Log decay per token, at most 0; `limits` are Mamba2's bounds of the time step."""
    step = min(max(_softplus(gate_input + dt_bias), limits[0]), limits[1])
    return -_exp(a_log) * step


def bounded_decay(a_log: float, dt_bias: float, *, lower_bound: float, gate_input: float = GATE_INPUT) -> float:
    """Log decay per token in `[lower_bound, 0]`."""
    return lower_bound * _sigmoid(_exp(a_log) * (gate_input + dt_bias))


def horizon_tokens(decays: Sequence[float], *, epsilon: float = EPSILON) -> tuple[float, ...]:
    """Horizons of log decays per token."""
    return tuple(math.log(epsilon) / g if g < 0 else math.inf for g in decays)


def _exp(x: float) -> float:
    return math.exp(min(x, 700.0))


def _softplus(x: float) -> float:
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))


def _sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x >= 0 else _exp(x) / (1 + _exp(x))
