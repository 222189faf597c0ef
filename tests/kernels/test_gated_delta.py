"""Triton against the reference, and the reference against transformers' own rule."""

from __future__ import annotations

import pytest
import torch

from agentform.kernels import gated_delta
from agentform.kernels.gated_delta import reference

SIZES = [(1, 1, 1, 1, 1), (2, 5, 2, 7, 33), (1, 5, 2, 100, 63)]
"""Branches, tokens, heads, key_dim, value_dim."""


def make_inputs(size, *, key_heads, per_channel, device, seed=0):
    """What the rule reads, NaN behind the ends of branches."""
    branches, tokens, heads, key_dim, value_dim = size
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape):
        return torch.randn(*shape, generator=generator)

    query, key = (torch.nn.functional.normalize(normal(branches, tokens, key_heads, key_dim), dim=-1) for _ in range(2))
    value = normal(branches, tokens, heads, value_dim)
    decay = -torch.nn.functional.softplus(normal(branches, tokens, heads, key_dim if per_channel else 1))
    beta = normal(branches, tokens, heads).sigmoid()
    lengths = torch.tensor([max(0, tokens - 2 * branch) for branch in range(branches)], dtype=torch.int32)
    for each in (query, key, value, decay, beta):
        for branch, length in enumerate(lengths.tolist()):
            each[branch, length:] = torch.nan
    state = normal(heads, key_dim, value_dim)
    return [each.to(device) for each in (query, key, value, decay, beta, lengths, state)]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("shared_keys", [False, True])
def test_triton_steps_branches_as_the_reference(size, per_channel, shared_keys, device):
    triton = pytest.importorskip("agentform.kernels.gated_delta.triton")
    key_heads = size[2] // 2 if shared_keys and size[2] > 1 else size[2]
    inputs = make_inputs(size, key_heads=key_heads, per_channel=per_channel, device=device)
    before = inputs[-1].clone()
    for got, wanted in zip(triton.step_branches(*inputs, 0.3), reference.step_branches(*inputs, 0.3), strict=True):
        assert not got.isnan().any()
        torch.testing.assert_close(got, wanted, atol=2e-5, rtol=2e-5)
    assert torch.equal(inputs[-1], before), "the shared state was written"


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("value_first", [False, True])
def test_triton_replays_as_the_reference(size, per_channel, value_first, device):
    triton = pytest.importorskip("agentform.kernels.gated_delta.triton")
    _, _, all_heads, key_dim, value_dim = size
    inputs = make_inputs((1, *size[1:]), key_heads=all_heads, per_channel=per_channel, device=device)
    key, value, decay, beta = (each[0] for each in inputs[1:5])
    heads = torch.arange(0, all_heads, 2, dtype=torch.int32, device=device)
    results = []
    for replay in (triton.replay, reference.replay):
        shape = (all_heads, value_dim, key_dim) if value_first else (all_heads, key_dim, value_dim)
        state = torch.full(shape, torch.nan, device=device)
        state = state.transpose(1, 2) if value_first else state
        replay(key, value, decay, beta, heads, state)
        results.append(state)
    torch.testing.assert_close(*results, atol=2e-5, rtol=2e-5, equal_nan=True)
    rebuilt = torch.zeros(all_heads, dtype=torch.bool, device=device)
    rebuilt[heads.long()] = True
    assert results[0][~rebuilt].isnan().all()
    assert not results[0][rebuilt].isnan().any()


def test_the_reference_is_the_rule_of_transformers():
    from transformers.models.qwen3_next.modeling_qwen3_next import torch_recurrent_gated_delta_rule

    query, key, value, decay, beta, lengths, state = make_inputs(
        (1, 9, 4, 8, 6), key_heads=2, per_channel=False, device=torch.device("cpu")
    )
    out, states = gated_delta.step_branches(query, key, value, decay, beta, lengths, state)
    wanted = torch_recurrent_gated_delta_rule(
        query, key, value, decay.squeeze(-1), beta, initial_state=state.unsqueeze(0), output_final_state=True
    )
    torch.testing.assert_close(out, wanted[0], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(states, wanted[1], atol=1e-5, rtol=1e-5)


def test_replaying_all_tokens_gives_their_state():
    _, key, value, decay, beta, _, state = make_inputs(
        (1, 12, 2, 8, 6), key_heads=2, per_channel=True, device=torch.device("cpu")
    )
    query, lengths = torch.zeros_like(key), torch.tensor([12], dtype=torch.int32)
    _, wanted = gated_delta.step_branches(query, key, value, decay, beta, lengths, torch.zeros_like(state))
    gated_delta.replay(key[0], value[0], decay[0], beta[0], torch.tensor([0, 1], dtype=torch.int32), state)
    torch.testing.assert_close(state, wanted[0])


def test_what_does_not_fit_is_refused():
    inputs = make_inputs((1, 3, 4, 8, 6), key_heads=3, per_channel=False, device=torch.device("cpu"))
    with pytest.raises(ValueError, match="4 heads are no multiple of 3 key heads"):
        gated_delta.step_branches(*inputs)
    _, key, value, decay, beta, _, state = inputs
    with pytest.raises(ValueError, match="state has shape"):
        gated_delta.replay(key[0, :, :2], value[0], decay[0], beta[0], torch.tensor([0], dtype=torch.int32), state.mT)
