"""Which precision each unit gets: by thresholds, by name, and for a number of bytes."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from agentform.errors import InvalidRequest
from agentform.runtime.snapshots.allocation import expected_error
from agentform.runtime.snapshots.horizons import Horizons, LayerHorizons
from agentform.runtime.snapshots.plan import LayerGeometry, Precision, PrecisionPlan, plan_bytes
from agentform.runtime.snapshots.policy import NAMED_POLICIES, SnapshotPolicy, named_policy

HEADS = [2.0, 30.0, 63.0, 500.0, 4000.0, math.inf]


def one_layer(tokens, *, heads=None, **sizes):
    heads = heads or len(tokens)
    layer = LayerHorizons(kind="gated delta", num_heads=heads, tokens=tuple(tokens))
    sizes = {
        "key_dim": 8,
        "value_dim": 16,
        "units_per_head": layer.units_per_head,
        "conv_bytes": 40,
        "input_bytes": 99,
    } | sizes
    return Horizons(layers={0: layer}, digest="d"), {0: LayerGeometry(num_heads=heads, **sizes)}


def precisions(policy, horizons, geometry):
    return [precision.name for precision in policy.plan(horizons, geometry).precisions[0]]


def test_thresholds_cut_the_horizons():
    policy = SnapshotPolicy(drop_below_tokens=64, exact_above_tokens=1000)
    assert precisions(policy, *one_layer(HEADS)) == ["DROP", "DROP", "DROP", "INT8", "EXACT", "EXACT"]
    assert precisions(SnapshotPolicy(keep="exact", drop_below_tokens=30), *one_layer(HEADS)) == ["DROP"] + ["EXACT"] * 5
    policy = SnapshotPolicy(drop_below_tokens=30, int4_below_tokens=500, exact_above_tokens=5000)
    assert precisions(policy, *one_layer(HEADS)) == ["DROP", "INT4", "INT4", "INT8", "INT8", "EXACT"]
    policy = SnapshotPolicy(keep="int4", exact_above_tokens=5000)
    assert precisions(policy, *one_layer(HEADS)) == ["INT4"] * 5 + ["EXACT"]


def test_replay_is_used_where_it_takes_fewer_bytes_and_then_takes_dropped_heads_along():
    policy = SnapshotPolicy(drop_below_tokens=10, replay_tokens=32)
    # One head's int8 rows take 8 * (16 + 4) = 160 bytes; the window (32 + 3) * 4 = 140 or (32 + 3) * 5 = 175.
    assert precisions(policy, *one_layer(HEADS, input_bytes=4, conv_tokens=3)) == ["REPLAY", "REPLAY"] + ["INT8"] * 4
    assert precisions(policy, *one_layer(HEADS, input_bytes=5, conv_tokens=3)) == ["DROP"] + ["INT8"] * 5


def test_a_head_is_replayed_whole_or_not_at_all():
    """Key channels of a head read one another, so a short one cannot be rebuilt without the long one beside it."""
    horizons, geometry = one_layer([5.0, 900.0, 5.0, 6.0], heads=2, key_dim=2, input_bytes=1)
    policy = SnapshotPolicy(keep="exact", replay_tokens=8)
    assert precisions(policy, horizons, geometry) == ["EXACT", "EXACT", "REPLAY", "REPLAY"]


def test_names_are_known_and_others_are_told():
    assert set(NAMED_POLICIES) == {"exact", "int8", "int4", "drop", "balanced", "small"}
    with pytest.raises(InvalidRequest, match=r"no snapshot policy 'tiny'; there are exact, int8, int4"):
        named_policy("tiny")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"budget_bytes": 1000, "replay_tokens": 3}, "not by both"),
        ({"budget_bytes": 1000, "int4_below_tokens": 3}, "not by both"),
        ({"keep": "int3"}, "'int4', 'int8' or 'exact', not 'int3'"),
        ({"drop_below_tokens": -1}, "at least 0"),
        ({"int4_below_tokens": -1}, "at least 0"),
    ],
)
def test_a_policy_that_makes_no_sense_is_refused(options, said):
    with pytest.raises(InvalidRequest, match=said):
        SnapshotPolicy(**options)


def test_bytes_are_what_the_tiers_take():
    horizons, geometry = one_layer(HEADS, input_bytes=2, conv_tokens=3)
    plan = PrecisionPlan(
        precisions={
            0: (Precision.DROP, Precision.REPLAY, Precision.REPLAY, Precision.INT8, Precision.EXACT, Precision.EXACT)
        },
        replay_tokens=10,
    )
    assert plan_bytes(plan, geometry) == 40 + (10 + 3) * 2 + 8 * (16 + 4) + 2 * 8 * 16 * 4
    assert plan.digest != PrecisionPlan(precisions=plan.precisions, replay_tokens=11).digest
    four = PrecisionPlan(precisions={0: (Precision.INT4,) * 6})
    assert plan_bytes(four, geometry) == 40 + 6 * 8 * (8 + 4)
    assert plan_bytes(four, one_layer(HEADS, value_dim=17)[1]) == 40 + 6 * 8 * (9 + 4)
    assert SnapshotPolicy().plan(horizons, geometry).count() == {Precision.INT8: 6}


layers = st.lists(st.lists(st.floats(1, 1e6), min_size=1, max_size=8), min_size=1, max_size=3)


@given(layers, st.floats(0.01, 1.1), st.integers(0, 40))
def test_a_budget_is_kept_and_no_single_unit_could_still_be_raised(horizons_of_layers, share, input_bytes):
    horizons = Horizons(
        layers={
            index: LayerHorizons(kind="gated delta", num_heads=len(tokens), tokens=tuple(tokens))
            for index, tokens in enumerate(horizons_of_layers)
        },
        digest="d",
    )
    geometry = {
        index: LayerGeometry(
            num_heads=layer.num_heads, key_dim=8, value_dim=16, units_per_head=1, input_bytes=input_bytes, conv_tokens=3
        )
        for index, layer in horizons.layers.items()
    }
    exact = plan_bytes(NAMED_POLICIES["exact"].plan(horizons, geometry), geometry)
    budget = int(exact * share)
    plan = SnapshotPolicy(budget_bytes=budget).plan(horizons, geometry)
    assert plan_bytes(plan, geometry) <= budget
    if share >= 1:
        assert expected_error(plan, horizons) == 0
    for layer, of_layer in plan.precisions.items():
        for unit, precision in enumerate(of_layer):
            for better in (Precision.INT4, Precision.INT8, Precision.EXACT):
                if better > precision:
                    raised = [*of_layer[:unit], better, *of_layer[unit + 1 :]]
                    other = PrecisionPlan(
                        precisions={**plan.precisions, layer: tuple(raised)}, replay_tokens=plan.replay_tokens
                    )
                    gains = expected_error(other, horizons) < expected_error(plan, horizons) - 1e-12
                    assert not gains or plan_bytes(other, geometry) > budget


@given(st.lists(st.floats(1, 1e6), min_size=1, max_size=5), st.integers(0, 2600))
def test_few_units_are_near_the_best_of_all_assignments(tokens, budget):
    horizons, geometry = one_layer(tokens, input_bytes=1, conv_tokens=3)
    assume(budget >= 40)
    got = expected_error(SnapshotPolicy(budget_bytes=budget).plan(horizons, geometry), horizons)
    best = min(
        expected_error(plan, horizons)
        for chosen in itertools.product(
            (Precision.DROP, Precision.INT4, Precision.INT8, Precision.EXACT), repeat=len(tokens)
        )
        if plan_bytes(plan := PrecisionPlan(precisions={0: chosen}), geometry) <= budget
    )
    # A price per byte leaves at most one unit short of its best precision.
    assert got <= best + 1 / len(tokens)


def test_more_bytes_are_never_worse():
    horizons, geometry = one_layer([float(2**power) for power in range(1, 17)], input_bytes=2, conv_tokens=3)
    exact = plan_bytes(NAMED_POLICIES["exact"].plan(horizons, geometry), geometry)
    errors = [
        expected_error(SnapshotPolicy(budget_bytes=budget).plan(horizons, geometry), horizons)
        for budget in range(40, exact + 100, 64)
    ]
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] == 0


def test_a_budget_below_the_convolutions_is_refused():
    with pytest.raises(InvalidRequest, match="30 bytes is too small: states of convolutions are exact and take 40"):
        SnapshotPolicy(budget_bytes=30).plan(*one_layer(HEADS))


def test_of_two_heads_the_one_that_remembers_longer_is_kept():
    horizons, geometry = one_layer([20.0, 2000.0], conv_bytes=0)
    assert precisions(SnapshotPolicy(budget_bytes=170), horizons, geometry) == ["DROP", "INT8"]


def test_the_longest_horizons_are_exact_first():
    """Rounding errors add up over restores only where they are not forgotten in between."""
    horizons, geometry = one_layer([20.0, 2000.0, 20_000.0], conv_bytes=0)
    assert precisions(SnapshotPolicy(budget_bytes=2 * 160 + 512), horizons, geometry) == ["INT8", "INT8", "EXACT"]


def test_a_head_that_never_forgets_is_rounded_sooner_than_another_is_dropped_for_it():
    horizons, geometry = one_layer([2000.0, 2000.0, 2000.0, math.inf], conv_bytes=0)
    all_int8 = plan_bytes(PrecisionPlan(precisions={0: (Precision.INT8,) * 4}), geometry)
    plan = SnapshotPolicy(budget_bytes=all_int8).plan(horizons, geometry)
    assert plan.precisions[0] == (Precision.INT8,) * 4
