"""Round trips through the codec: fixed bytes, zeros where dropped, half a scale where int8, identical where exact."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from agentform.errors import InvalidRequest
from agentform.kernels.gated_delta import step_branches
from agentform.runtime.snapshots.allocation import INT4_ERROR, INT8_ERROR
from agentform.runtime.snapshots.horizons import EPSILON, Horizons, LayerHorizons
from agentform.runtime.snapshots.plan import Precision, PrecisionPlan
from agentform.runtime.torch.snapshots.codec import ExactCodec, LayerState, StateShape
from agentform.runtime.torch.snapshots.decay_codec import DecayCodec

KINDS = st.sampled_from(["gated delta", "KDA", "Mamba2"])
KEY, VALUE = 3, 5


@st.composite
def cases(draw):
    """A codec for layer 4, the shape of its state, and a state with its inputs."""
    kind = draw(KINDS)
    heads = draw(st.integers(1, 3))
    units = heads * (KEY if kind == "KDA" else 1)
    precisions = tuple(draw(st.lists(st.sampled_from(list(Precision)), min_size=units, max_size=units)))
    dtype = draw(st.sampled_from([torch.float32, torch.bfloat16]))
    layer = LayerHorizons(kind=kind, num_heads=heads, tokens=(9.0,) * units)
    codec = DecayCodec(
        PrecisionPlan(precisions={4: precisions}, replay_tokens=2), Horizons(layers={4: layer}, digest="d")
    )
    shape = StateShape(
        conv=(7, 4),
        recurrent=(heads, VALUE, KEY) if kind == "Mamba2" else (heads, KEY, VALUE),
        conv_dtype=torch.bfloat16,
        recurrent_dtype=dtype,
        input_dim=3,
        input_dtype=torch.bfloat16,
    )
    generator = torch.Generator().manual_seed(draw(st.integers(0, 99)))
    return codec, shape, make_state(codec, shape, lambda *size: torch.randn(*size, generator=generator))


def make_state(codec, shape, values):
    num_inputs = codec.num_inputs(4, shape)
    return LayerState(
        conv=values(*shape.conv).to(shape.conv_dtype),
        recurrent=values(*shape.recurrent).to(shape.recurrent_dtype),
        inputs=values(num_inputs, shape.input_dim).to(shape.input_dtype) if num_inputs else None,
    )


def nan(*size):
    return torch.full(size, torch.nan)


def by_row(codec, state):
    """Precision and values of each key row."""
    layer = codec.horizons.layers[4]
    recurrent = state.recurrent.mT if layer.kind == "Mamba2" else state.recurrent
    precisions = codec.plan.precisions[4]
    return [
        (precisions[head * layer.units_per_head + (key if layer.kind == "KDA" else 0)], recurrent[head, key].float())
        for head in range(layer.num_heads)
        for key in range(KEY)
    ]


@given(cases())
def test_what_comes_back_is_what_the_tier_says(case):
    codec, shape, state = case
    data = torch.cat(list(codec.encode(4, state)))
    assert data.dtype == torch.uint8
    assert len(data) == codec.num_bytes(4, shape)
    back = make_state(codec, shape, nan)
    codec.decode(4, data, back, lambda inputs: torch.full(shape.recurrent, float(len(inputs))))
    assert torch.equal(back.conv, state.conv)
    for (precision, was), (_, now) in zip(by_row(codec, state), by_row(codec, back), strict=True):
        if precision is Precision.DROP:
            assert not now.any()
        elif precision is Precision.REPLAY:
            assert (now == 2 + 3).all()  # the window, and what the convolution needs before it
        elif precision is Precision.EXACT:
            assert torch.equal(now, was)
        else:
            step = was.abs().max() / 127 if precision is Precision.INT8 else (was.max() - was.min()) / 15
            ends = 2**-7 * was.abs().max() if precision is Precision.INT4 else 0  # rounded to bfloat16
            coarse = 2**-8 * was.abs() if shape.recurrent_dtype == torch.bfloat16 else 1e-6
            assert ((now - was).abs() <= step / 2 + ends + coarse).all()
    if state.inputs is not None:
        assert torch.equal(back.inputs, state.inputs)


@given(cases())
def test_a_snapshot_of_a_restored_state_is_the_same_snapshot(case):
    """So a conversation that is restored and written without going on does not drift at all."""
    codec, shape, state = case
    if shape.recurrent_dtype == torch.bfloat16:  # restored values are rounded once more
        return
    first = torch.cat(list(codec.encode(4, state)))
    for _ in range(3):
        back = make_state(codec, shape, nan)
        codec.decode(4, first, back, lambda inputs: torch.ones(shape.recurrent))
        again = torch.cat(list(codec.encode(4, back)))
        scales = 7 * 4 * 2 + 4 * VALUE * sum(precision is Precision.EXACT for precision, _ in by_row(codec, state))
        steps = scales + 4 * sum(
            precision is Precision.INT8 for precision, _ in by_row(codec, state)
        )  # scales may change a last bit
        assert torch.equal(again[:scales], first[:scales])
        assert torch.equal(again[steps:], first[steps:])


@given(cases())
def test_dropped_units_are_told(case):
    codec, _, state = case
    dropped = codec.dropped(4, state)
    rows = [precision is Precision.DROP for precision, _ in by_row(codec, state)]
    if dropped is None:
        assert not any(rows)
    else:
        mask = LayerState(conv=None, recurrent=dropped.expand_as(state.recurrent))
        assert [bool(row.all()) for _, row in by_row(codec, mask)] == rows
        assert [bool(row.any()) for _, row in by_row(codec, mask)] == rows


def test_of_what_is_dropped_that_which_forgets_soon_is_told():
    layer = LayerHorizons(kind="KDA", num_heads=2, tokens=(5.0, 50.0, 500.0, 50.0, 5000.0, 50.0))
    precisions = (Precision.DROP,) * 3 + (Precision.INT4, Precision.DROP, Precision.DROP)
    codec = DecayCodec(PrecisionPlan(precisions={4: precisions}), Horizons(layers={4: layer}, digest="d"))
    state = LayerState(conv=None, recurrent=torch.ones(2, KEY, VALUE))

    def dropped(**options):
        mask = codec.dropped(4, state, **options)
        return None if mask is None else mask.flatten().tolist()

    assert dropped() == [True, True, True, False, True, True]
    assert dropped(within_tokens=50) == [True, True, False, False, False, True]
    assert dropped(within_tokens=4) is None


@pytest.mark.parametrize("horizon", [50.0, 500.0, 5000.0, math.inf])
@pytest.mark.parametrize(("precision", "error"), [(Precision.INT8, INT8_ERROR), (Precision.INT4, INT4_ERROR)])
def test_a_chain_of_restores_drifts_no_further_than_the_bound(horizon, precision, error):
    """50 times: restored, 17 tokens, written again. Energies of roundings add up, and fade at the rate of the head."""
    heads, key_dim, value_dim, tokens = 4, 16, 32, 17
    layer = LayerHorizons(kind="gated delta", num_heads=heads, tokens=(horizon,) * heads)
    codec = DecayCodec(PrecisionPlan(precisions={4: (precision,) * heads}), Horizons(layers={4: layer}, digest="d"))
    generator = torch.Generator().manual_seed(0)
    decay = torch.full((1, tokens, heads, 1), math.log(EPSILON) / horizon)
    lengths = torch.tensor([tokens], dtype=torch.int32)
    exact = packed = torch.zeros(heads, key_dim, value_dim)
    left, bound = EPSILON ** (2 * tokens / horizon), 0.0
    for _ in range(50):
        key = torch.nn.functional.normalize(torch.randn(1, tokens, heads, key_dim, generator=generator), dim=-1)
        value = torch.randn(1, tokens, heads, value_dim, generator=generator)
        beta = torch.rand(1, tokens, heads, generator=generator)
        exact, packed = (step_branches(key, key, value, decay, beta, lengths, state)[1][0] for state in (exact, packed))
        data = torch.cat(list(codec.encode(4, LayerState(conv=None, recurrent=packed))))
        codec.decode(4, data, LayerState(conv=None, recurrent=packed), lambda inputs: inputs)
        bound = bound * left + error
        assert (exact - packed).square().sum() < bound * exact.square().sum()


def test_layers_that_no_plan_names_are_exact():
    codec = DecayCodec(PrecisionPlan(precisions={}), Horizons(layers={}, digest="d"))
    shape = StateShape(conv=(3, 2), recurrent=None)
    state = LayerState(conv=torch.randn(3, 2), recurrent=None)
    assert codec.num_bytes(0, shape) == ExactCodec().num_bytes(0, shape)
    back = LayerState(conv=torch.zeros(3, 2), recurrent=None)
    codec.decode(0, torch.cat(list(codec.encode(0, state))), back, lambda inputs: inputs)
    assert torch.equal(back.conv, state.conv)
    assert codec.is_exact
    assert codec.dropped(0, state) is None
    assert codec.num_inputs(0, shape) == 0


def test_the_name_tells_weights_and_plans_apart():
    layer = LayerHorizons(kind="gated delta", num_heads=1, tokens=(9.0,))
    names = {
        DecayCodec(PrecisionPlan(precisions={0: (precision,)}), Horizons(layers={0: layer}, digest=digest)).name
        for precision in Precision
        for digest in ("a", "b")
    }
    assert len(names) == 2 * len(Precision)


def test_a_plan_for_another_model_is_refused():
    layer = LayerHorizons(kind="gated delta", num_heads=2, tokens=(9.0, 9.0))
    with pytest.raises(InvalidRequest, match="layer 0 has 2 units; the plan of precisions has 1"):
        DecayCodec(PrecisionPlan(precisions={0: (Precision.DROP,)}), Horizons(layers={0: layer}, digest=""))
    with pytest.raises(InvalidRequest, match="layer 1 has 0 units"):
        DecayCodec(PrecisionPlan(precisions={1: (Precision.DROP,)}), Horizons(layers={0: layer}, digest=""))
