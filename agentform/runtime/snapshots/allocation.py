"""The best precisions for a number of bytes.

The error model. After a restore a unit of horizon H is off by some share of its state's energy; what is off fades at
the unit's own rate, so over the next `LOOKAHEAD_TOKENS` it counts with

    weight(H) = mean over t of r ** t          r = exp(2 ln(EPSILON) / H), energy left per token

- DROP loses the whole state: 1 * weight(H).
- REPLAY loses what is older than the window of W tokens: r ** W * weight(H).
- INT8 loses `INT8_ERROR * weight(H)`, INT4 `INT4_ERROR * weight(H)`.
- EXACT loses nothing.

Every head counts alike, since models normalise each head's output (a key channel counts as its share of a head). The
model knows nothing of which heads matter to a task. Nor does it count that a conversation which is restored and written
again many times is rounded each time: counting it, the plan drops more heads for the sake of those that hardly forget;
measured over twenty restores, answers were no better for it and text was worse.

Minimising error for bytes is a knapsack; with a price per byte each unit and each layer's window decide for
themselves, and the price is found by bisection (Everett's generalised Lagrange multipliers). Bytes left over at the
end go where they help most. Not proven optimal: at most one unit off in each layer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from agentform.errors import InvalidRequest
from agentform.runtime.snapshots.horizons import EPSILON, Horizons, LayerHorizons
from agentform.runtime.snapshots.plan import LayerGeometry, Precision, PrecisionPlan, forgetful_units, plan_bytes

__all__ = ["INT4_ERROR", "INT8_ERROR", "WINDOWS_TOKENS", "allocate", "expected_error"]

LOOKAHEAD_TOKENS = 256
INT8_ERROR = 3.0**2 / (12 * 127**2)
"""Energy of the rounding error over that of the state, for values whose greatest is three times their root mean
square."""
INT4_ERROR = 4.5**2 / (12 * 15**2)
"""`INT8_ERROR` of four bits, for rows whose range is four and a half times the root mean square."""
WINDOWS_TOKENS = (0, 16, 32, 64)
"""Replay windows that are tried; 0 is none."""

_Floats = npt.NDArray[np.float64]


def allocate(budget_bytes: int, horizons: Horizons, geometry: Mapping[int, LayerGeometry]) -> PrecisionPlan:
    """Precisions of at most `budget_bytes` with the least expected error.

    Raises:
        InvalidRequest: nothing fits into so few bytes.
    """
    least = sum(sizes.conv_bytes for sizes in geometry.values())
    if budget_bytes < least:
        raise InvalidRequest(
            f"a snapshot of {budget_bytes:,} bytes is too small: states of convolutions are exact and take {least:,}"
        )
    plans = [_fit(budget_bytes, horizons, geometry, window) for window in WINDOWS_TOKENS]
    return min(plans, key=lambda plan: expected_error(plan, horizons))


def expected_error(plan: PrecisionPlan, horizons: Horizons) -> float:
    """Mean over heads of the share of the state's energy that is off, by the model above; at most 1."""
    total = 0.0
    for layer, each in horizons.layers.items():
        errors = _Options.of(each, None, plan.replay_tokens).errors
        total += float(errors[list(plan.precisions[layer]), range(len(each.tokens))].sum())
    return total / sum(each.num_heads for each in horizons.layers.values())


@dataclass(frozen=True, kw_only=True)
class _Options:
    """What each precision of each unit of a layer costs and loses, `[precisions, units]`."""

    errors: _Floats
    sizes: _Floats
    fixed: int
    """Bytes of the window."""

    @classmethod
    def of(cls, layer: LayerHorizons, geometry: LayerGeometry | None, window: int) -> _Options:
        units = len(layer.tokens)
        rate = np.exp(2 * np.log(EPSILON) / np.array(layer.tokens))
        weight = np.array([_weight(r) for r in rate]) / layer.units_per_head
        errors = np.zeros((len(Precision), units))
        errors[Precision.DROP] = weight
        errors[Precision.REPLAY] = np.inf
        forgetful = forgetful_units(layer, window)
        errors[Precision.REPLAY, forgetful] = (rate**window * weight)[forgetful]
        errors[Precision.INT4], errors[Precision.INT8] = INT4_ERROR * weight, INT8_ERROR * weight
        each = [geometry.unit_bytes(precision) if geometry is not None else 0 for precision in Precision]
        sizes = np.repeat(np.array(each, dtype=np.float64)[:, None], units, axis=1)
        fixed = geometry.replay_bytes(window) if geometry is not None else 0
        return cls(errors=errors, sizes=sizes, fixed=fixed)

    def at(self, price: float) -> npt.NDArray[np.int64]:
        """The best precision of each unit when a byte costs `price` of error."""
        cost = self.errors + price * self.sizes
        replaying = cost.argmin(axis=0)
        cost[Precision.REPLAY] = np.inf
        alone = cost.argmin(axis=0)
        units = np.arange(cost.shape[1])
        with_window = np.where(replaying == Precision.REPLAY, self.errors[Precision.REPLAY], cost[alone, units])
        pays = with_window.sum() + price * self.fixed < cost[alone, units].sum()
        return replaying if pays else alone


def _fit(budget: int, horizons: Horizons, geometry: Mapping[int, LayerGeometry], window: int) -> PrecisionPlan:
    options = {layer: _Options.of(each, geometry[layer], window) for layer, each in horizons.layers.items()}

    def plan(price: float) -> PrecisionPlan:
        precisions = {
            layer: tuple(Precision(precision) for precision in each.at(price)) for layer, each in options.items()
        }
        return PrecisionPlan(precisions=precisions, replay_tokens=window)

    low, high = -60.0, 10.0  # exponents of the price: at the low end everything is exact, at the high end nothing kept
    if plan_bytes(plan(np.exp(low)), geometry) <= budget:
        return plan(np.exp(low))
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (low, middle) if plan_bytes(plan(np.exp(middle)), geometry) <= budget else (middle, high)
    return _spend(plan(np.exp(high)), budget, geometry, options)


def _spend(
    plan: PrecisionPlan, budget: int, geometry: Mapping[int, LayerGeometry], options: Mapping[int, _Options]
) -> PrecisionPlan:
    """Raise single units, best error per byte first, while there are bytes left."""
    left = budget - plan_bytes(plan, geometry)
    precisions = {layer: list(each) for layer, each in plan.precisions.items()}
    while steps := _steps(precisions, left, options):  # again, since a unit may be raised twice
        for _, layer, unit, precision in steps:
            sizes = options[layer].sizes[:, unit]
            more = sizes[precision] - sizes[precisions[layer][unit]]
            if precision > precisions[layer][unit] and more <= left:
                left -= int(more)
                precisions[layer][unit] = precision
    return PrecisionPlan(
        precisions={layer: tuple(each) for layer, each in precisions.items()}, replay_tokens=plan.replay_tokens
    )


def _steps(
    precisions: Mapping[int, list[Precision]], left: int, options: Mapping[int, _Options]
) -> list[tuple[float, int, int, Precision]]:
    """Units that could be raised for at most `left` bytes: error per byte, layer, unit, precision, best first."""
    steps: list[tuple[float, int, int, Precision]] = []
    for layer, each in precisions.items():
        errors, sizes = options[layer].errors, options[layer].sizes
        for unit, now in enumerate(each):
            for precision in (Precision.INT4, Precision.INT8, Precision.EXACT):
                more, gain = sizes[precision, unit] - sizes[now, unit], errors[now, unit] - errors[precision, unit]
                if precision > now and gain > 0 and 0 < more <= left:
                    steps.append((gain / more, layer, unit, precision))
    return sorted(steps, reverse=True)


def _weight(rate: float) -> float:
    """Mean of `rate ** t` over the tokens ahead."""
    return 1.0 if rate >= 1 else (1 - rate**LOOKAHEAD_TOKENS) / (LOOKAHEAD_TOKENS * (1 - rate))
