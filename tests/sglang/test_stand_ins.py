"""The stand-ins against transformers' own plain torch and against themselves, without SGLang."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from sglang_stand_ins.convolution import causal_conv1d_fn, causal_conv1d_update
from sglang_stand_ins.elementwise import (
    fused_gate_sigmoid_mul_add,
    fused_qkvzba_split_reshape_cat,
    fused_qkvzba_split_reshape_cat_contiguous,
    fused_sigmoid_mul,
    rms_norm_gated,
)
from sglang_stand_ins.gated_delta import (
    CHUNK_TOKENS,
    chunk_gated_delta_rule,
    fused_gdn_gating,
    packed_decode,
    track_mamba_states_all_layers,
)
from transformers.models.qwen3_next.modeling_qwen3_next import torch_recurrent_gated_delta_rule

KEY_HEADS, HEADS, KEY_DIM, VALUE_DIM = 2, 4, 6, 5


def _inputs(tokens: int):
    q, k = torch.randn(2, 1, tokens, KEY_HEADS, KEY_DIM)
    v = torch.randn(1, tokens, HEADS, VALUE_DIM)
    g, beta = -torch.rand(1, tokens, HEADS), torch.rand(1, tokens, HEADS)
    return q, k, v, g, beta


def _reference(q, k, v, g, beta, state):
    """transformers' result for one sequence; its state is key first."""
    q, k = (each.repeat_interleave(HEADS // KEY_HEADS, dim=2) for each in (q, k))
    out, last = torch_recurrent_gated_delta_rule(
        q, k, v, g=g, beta=beta, initial_state=state[None].mT, output_final_state=True, use_qk_l2norm_in_kernel=True
    )
    return out, last[0].mT


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


def _rule(q, k, v, g, beta, states, slots, bounds, **more):
    return chunk_gated_delta_rule(
        q,
        k,
        v,
        g,
        beta,
        initial_state=states,
        initial_state_indices=torch.tensor(slots),
        cu_seqlens=torch.tensor(bounds),
        use_qk_l2norm_in_kernel=True,
        **more,
    )


def test_sequences_in_a_row_are_what_transformers_makes_of_each():
    inputs = _inputs(9)
    states = torch.randn(4, HEADS, VALUE_DIM, KEY_DIM)
    before = states.clone()
    out, _, _ = _rule(*inputs, states, [2, 1], [0, 5, 9])
    for slot, at in ((2, slice(0, 5)), (1, slice(5, 9))):
        expected, last = _reference(*(each[:, at] for each in inputs), before[slot])
        torch.testing.assert_close(out[:, at], expected, atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(states[slot], last, atol=1e-5, rtol=1e-4)
    assert torch.equal(states[[0, 3]], before[[0, 3]])


def test_states_are_left_alone_where_that_is_asked():
    states = torch.randn(2, HEADS, VALUE_DIM, KEY_DIM)
    before = states.clone()
    _rule(*_inputs(3), states, [1], [0, 3], inplace_update=False)
    assert torch.equal(states, before)


def test_states_are_told_at_the_start_of_each_chunk():
    inputs = _inputs(CHUNK_TOKENS + 3)
    states = torch.zeros(1, HEADS, VALUE_DIM, KEY_DIM)
    _, _, chunks = _rule(*inputs, states, [0], [0, CHUNK_TOKENS + 3])
    _, second = _reference(*(each[:, :CHUNK_TOKENS] for each in inputs), torch.zeros_like(states[0]))
    assert chunks.shape[:2] == (1, 2)
    assert not chunks[0, 0].any()
    torch.testing.assert_close(chunks[0, 1], second, atol=1e-5, rtol=1e-4)


def test_a_decoded_token_continues_the_sequence():
    q, k, v, _, _ = _inputs(1)
    a, b, a_log, dt_bias = torch.randn(1, HEADS), torch.randn(1, HEADS), torch.rand(HEADS), torch.rand(HEADS)
    states = torch.randn(3, HEADS, VALUE_DIM, KEY_DIM)
    decay, beta = fused_gdn_gating(a_log, a, b, dt_bias)
    expected, last = _reference(q, k, v, decay, beta, states[2])
    mixed = torch.cat([each.flatten(1) for each in (q[0], k[0], v[0])], dim=-1)
    out = torch.full((2, 1, HEADS, VALUE_DIM), torch.nan)
    packed_decode(
        torch.cat([mixed, mixed]),
        torch.cat([a, a]),
        torch.cat([b, b]),
        a_log,
        dt_bias,
        KEY_DIM**-0.5,
        states,
        out,
        torch.tensor([2, -1]),
        use_qk_l2norm_in_kernel=True,
    )
    torch.testing.assert_close(out[0], expected[0], atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(states[2], last, atol=1e-5, rtol=1e-4)
    assert out[1].isnan().all(), "a padded row is not written"


def test_marked_sequences_are_tracked():
    conv, ssm = torch.randn(2, 5, 3), torch.randn(2, 5, 4)
    before = ssm.clone()
    mask = torch.tensor([True, False, True])
    track_mamba_states_all_layers(conv, ssm, torch.tensor([0, 1, 9]), mask, torch.tensor([3, 4, 9]), 2)
    assert torch.equal(ssm[:, 3], before[:, 0])
    assert torch.equal(conv[:, 3], conv[:, 0])
    assert torch.equal(ssm[:, 4], before[:, 4])


@pytest.mark.parametrize("activation", ["silu", None])
def test_a_convolution_in_parts_is_the_convolution_of_the_whole(activation):
    channels, width = 4, 4
    x, weight, bias = torch.randn(channels, 9), torch.randn(channels, width), torch.randn(channels)
    whole = F.conv1d(F.pad(x, (width - 1, 0))[None], weight[:, None], bias, groups=channels)[0]
    whole = F.silu(whole) if activation else whole
    states = torch.full((3, channels, width - 1), torch.nan)
    slots, off = torch.tensor([1]), torch.tensor([False])
    first = causal_conv1d_fn(x[:, :2], weight, bias, states, torch.tensor([0, 2]), [2], slots, off, activation)
    second = causal_conv1d_fn(x[:, 2:7], weight, bias, states, torch.tensor([0, 5]), [5], slots, ~off, activation)
    third = causal_conv1d_update(x[:, 7].unsqueeze(0), states, weight, bias, activation, conv_state_indices=slots)
    last = causal_conv1d_update(x[:, 8:].unsqueeze(0), states, weight, bias, activation, conv_state_indices=slots)
    torch.testing.assert_close(torch.cat([first, second, third.T, last[0]], dim=-1), whole, atol=1e-5, rtol=1e-4)
    assert states[[0, 2]].isnan().all()


def test_projections_by_key_head_and_by_kind_split_alike():
    tokens, per_head = 3, HEADS // KEY_HEADS
    q, k = torch.randn(2, tokens, KEY_HEADS, KEY_DIM)
    v, z = torch.randn(2, tokens, HEADS, VALUE_DIM)
    b, a = torch.randn(2, tokens, HEADS)
    sizes = (KEY_HEADS, HEADS, KEY_DIM, VALUE_DIM)
    by_kind = torch.cat([each.flatten(1) for each in (q, k, v, z)], dim=-1), torch.cat([b, a], dim=-1)
    grouped = [each.reshape(tokens, KEY_HEADS, -1) for each in (q, k, v, z)]
    gates = [each.view(tokens, KEY_HEADS, per_head) for each in (b, a)]
    by_head = torch.cat(grouped, dim=-1).flatten(1), torch.cat(gates, dim=-1).flatten(1)
    first = fused_qkvzba_split_reshape_cat_contiguous(*by_kind, *sizes)
    second = fused_qkvzba_split_reshape_cat(*by_head, *sizes)
    for one, other, expected in zip(first, second, (by_kind[0][:, : -HEADS * VALUE_DIM], z, b, a), strict=True):
        assert torch.equal(one, expected)
        assert torch.equal(other, expected)


def test_gates():
    x, gate, weight = torch.randn(3, 4), torch.randn(3, 2, 2), torch.rand(4)
    expected = x * torch.sigmoid(gate.flatten(1))
    assert torch.equal(fused_sigmoid_mul(x, gate), expected)
    same = x.clone()
    assert fused_sigmoid_mul(same, gate, inplace=True) is same
    assert torch.equal(same, expected)
    normed = F.rms_norm(x, (4,), weight, 1e-6)
    torch.testing.assert_close(rms_norm_gated(x, None, weight, None), normed)
    torch.testing.assert_close(rms_norm_gated(x, x, weight, None), normed * F.silu(x))
    total = torch.ones(3, 4)
    fused_gate_sigmoid_mul_add(x, weight, x, total)
    torch.testing.assert_close(total, 1 + torch.sigmoid(x @ weight)[:, None] * x)
