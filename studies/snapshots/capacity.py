"""How many conversations the same bytes hold: the real cache, without a model, with snapshots of Qwen3-Next's size."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from agentform.runtime.cache.prefix_cache import PrefixCache
from agentform.runtime.snapshots.plan import BARE_POSITION_BYTES, LayerGeometry, Precision, PrecisionPlan, plan_bytes

__all__ = ["CLIFF", "CONVERSATIONS", "SLOTS", "TOKENS", "Sizes", "cliff", "measure", "second_pass", "sizes"]

TOKENS = 4096
CONVERSATIONS = 500
SLOTS = 256
"""Exact snapshots that the budget holds."""
CLIFF = (64, 128, 192, 256, 320, 400, 500, 640, 800, 1000, 1400, 2000, 2600)
"""Numbers of conversations."""
_BLOCK = 64
_LAYERS, _HEADS, _KEPT = 36, 32, 12
_GEOMETRY = LayerGeometry(
    num_heads=_HEADS,
    key_dim=128,
    value_dim=128,
    units_per_head=1,
    state_itemsize=4,
    conv_bytes=8192 * 4 * 2,
    input_bytes=2048 * 2,
    conv_tokens=3,
)
"""Of one of Qwen3-Next's 36 gated delta layers: states in float32, convolutions in bfloat16."""
KV_BYTES = 12 * 2 * 2 * 256 * 2
"""Of one token of Qwen3-Next's 12 attention layers: keys and values, 2 heads of 256, bfloat16."""


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """What one way of writing snapshots makes of Qwen3-Next's."""

    name: str
    num_bytes: int
    ratio: float
    """Of an exact snapshot's bytes."""
    state_ratio: float
    """The same without the convolutions, which are never touched."""


def sizes() -> list[Sizes]:
    """Exact, 62% of the heads dropped, int8, both, int4."""
    plans = {"exact": (Precision.EXACT, _HEADS), "drop": (Precision.EXACT, _KEPT), "int8": (Precision.INT8, _HEADS)}
    plans |= {"both": (Precision.INT8, _KEPT), "int4": (Precision.INT4, _HEADS)}
    geometry = dict.fromkeys(range(_LAYERS), _GEOMETRY)
    conv = _LAYERS * _GEOMETRY.conv_bytes
    found = {name: plan_bytes(_plan(*plan), geometry) for name, plan in plans.items()}
    return [
        Sizes(
            name=name,
            num_bytes=num,
            ratio=found["exact"] / num,
            state_ratio=(found["exact"] - conv) / (num - conv),
        )
        for name, num in found.items()
    ]


def second_pass(snapshot_bytes: int, token_bytes: int, budget_bytes: int, order: Sequence[int]) -> float:
    """Every conversation comes once and then again in `order`: the share of tokens that need not be computed then."""
    position = _BLOCK * token_bytes
    ticks = itertools.count()
    cache = PrefixCache(
        budget_bytes // position,
        position_bytes=position,
        snapshot_positions=math.ceil(snapshot_bytes / position),
        num_slots=1,
        clock=lambda: float(next(ticks)),
    )
    for conversation in range(len(order)):
        _turn(cache, conversation)
    return sum(_turn(cache, conversation) for conversation in order) / (len(order) * (TOKENS // _BLOCK))


def cliff(orders: Mapping[str, bool], *, numbers: Sequence[int], seed: int) -> list[dict[str, Any]]:
    """Hit rates of the second pass by number of conversations, order and way; the states alone take the budget."""
    budget = _budget(_TOKEN)
    rows: list[dict[str, Any]] = []
    for num in numbers:
        for order, is_random in orders.items():
            again = np.random.default_rng([seed, num]).permutation(num) if is_random else np.arange(num)
            for way in sizes():
                rate = second_pass(way.num_bytes, _TOKEN, budget, again.tolist())
                rows.append({"conversations": num, "order": order, "way": way.name, "hit_rate": rate})
    return rows


def measure(*, seed: int) -> list[dict[str, Any]]:
    """500 conversations: hit rates where snapshots have the budget alone, and where keys and values share it."""
    rows: list[dict[str, Any]] = []
    for budget_name, token in (("states alone", _TOKEN), ("states and KV", KV_BYTES)):
        budget = _budget(token)
        for way in sizes():
            row: dict[str, Any] = {"budget": budget_name, "budget_gb": budget / 1e9, "way": way.name}
            row["conversations_held"] = budget // (way.num_bytes + TOKENS * token)
            for order in ("sequential", "random"):
                rng = np.random.default_rng([seed, CONVERSATIONS])
                again = rng.permutation(CONVERSATIONS) if order == "random" else np.arange(CONVERSATIONS)
                row[order] = second_pass(way.num_bytes, token, budget, again.tolist())
            rows.append(row)
    return rows


_TOKEN = BARE_POSITION_BYTES
"""Bytes that the engine spends on a token of a model without attention."""


def _budget(token_bytes: int) -> int:
    exact = sizes()[0].num_bytes
    position = _BLOCK * token_bytes
    return SLOTS * (math.ceil(exact / position) * position + TOKENS * token_bytes)


def _plan(precision: Precision, kept: int) -> PrecisionPlan:
    precisions = (precision,) * kept + (Precision.DROP,) * (_HEADS - kept)
    return PrecisionPlan(precisions=dict.fromkeys(range(_LAYERS), precisions))


def _turn(cache: PrefixCache, conversation: int) -> int:
    """A conversation's prompt, with a snapshot at its end; returns the blocks that were found."""
    ids = tuple(conversation * 100_000 + block for block in range(TOKENS // _BLOCK))
    lease = cache.open(ids, usable=len(ids), extra=0)
    assert lease is not None, "a conversation that does not fit"
    cache.loaded(lease)
    found = lease.start
    cache.grow(lease, len(ids) - sum(stop - start for start, stop in lease.runs))
    cache.commit(lease, ids)
    if cache.snapshot_room(lease, len(ids)) is not None:
        cache.attach(lease, ids)
    cache.close(lease)
    return found
