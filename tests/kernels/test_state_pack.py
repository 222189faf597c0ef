"""Triton against the reference: the same bytes, at sizes that fill no block, in buffers full of NaN."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from agentform.kernels import state_pack
from agentform.kernels.state_pack import reference

SIZES = [(1, 1, 1), (3, 7, 5), (2, 63, 65), (1, 1000, 33)]


def make_state(heads, key_dim, value_dim, *, value_first, dtype, device, seed=0):
    """A state of strides that are not those of its shape, NaN around it."""
    generator = torch.Generator().manual_seed(seed)
    shape = (heads, value_dim + 3, key_dim + 2) if value_first else (heads, key_dim + 2, value_dim + 3)
    whole = torch.full(shape, torch.nan, dtype=dtype)
    part = whole.transpose(1, 2) if value_first else whole
    part = part[:, 1 : key_dim + 1, 2 : value_dim + 2]
    part.copy_(
        torch.randn(part.shape, generator=generator) * 10 ** torch.randn(*part.shape[:2], 1, generator=generator)
    )
    part[0, 0] = 0  # a row without a scale
    whole = whole.to(device)
    part = whole.transpose(1, 2) if value_first else whole
    return part[:, 1 : key_dim + 1, 2 : value_dim + 2]


def chosen_rows(size, share, device, seed=1):
    heads, key_dim, _ = size
    rows = (torch.rand(heads * key_dim, generator=torch.Generator().manual_seed(seed)) < share).nonzero().flatten()
    return rows.to(device)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("value_first", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("share", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("kinds", ["8 bits", "4 bits", "both"])
def test_triton_packs_and_unpacks_as_the_reference(size, value_first, dtype, share, kinds, device):
    triton = pytest.importorskip("agentform.kernels.state_pack.triton")
    state = make_state(*size, value_first=value_first, dtype=dtype, device=device)
    heads, key_dim, _ = size
    rows = chosen_rows(size, share, device)
    num_int8 = {"8 bits": len(rows), "4 bits": 0, "both": len(rows) // 2}[kinds]
    rows = rows[torch.randperm(len(rows), generator=torch.Generator().manual_seed(2)).to(device)]
    packed = []
    for module in (triton, reference):
        packed.append((*module.pack(state, rows[:num_int8]), *module.pack_int4(state, rows[num_int8:])))
    for got, wanted in zip(*packed, strict=True):
        assert torch.equal(got, wanted)
    places = torch.full((heads * key_dim,), -1, dtype=torch.int32, device=device)
    places[rows] = torch.arange(len(rows), dtype=torch.int32, device=device)
    results = []
    for unpack in (triton.unpack, reference.unpack):
        target = make_state(*size, value_first=value_first, dtype=dtype, device=device)
        target.fill_(torch.nan)
        unpack(*packed[0], places, target)
        results.append(target)
    # The interpreter cuts bfloat16 off where devices round.
    torch.testing.assert_close(*results, rtol=0 if dtype == torch.float32 else 2**-7, atol=0)
    assert not results[0].isnan().any()


numbers = st.lists(st.floats(-(2.0**99), 2.0**99, width=32), min_size=1, max_size=12)


@given(numbers, st.integers(1, 4))
def test_values_of_four_bits_are_off_by_half_a_step_and_packing_again_changes_nothing(numbers, num_rows):
    row = torch.tensor(numbers, dtype=torch.float32)
    state = row.repeat(1, num_rows, 1) * (1 + torch.arange(num_rows)).view(1, -1, 1)
    rows = torch.arange(num_rows)
    nibbles, ranges = state_pack.pack_int4(state, rows)
    restored = unpack_int4(nibbles, ranges, state.shape)
    low, size = ranges.float().split(1, dim=-1)
    # Rounding to bfloat16 moves the ends of the range.
    moved = 2**-8 * (low.abs() + 15 * size)
    assert ((state - restored).abs()[0] <= size / 2 + moved + 1e-37).all()
    again = state_pack.pack_int4(restored, rows)
    apart = (size > 2**-8 * low.abs()).flatten() & (size > 1e-35).flatten()
    assert torch.equal(again[0][apart], nibbles[apart])
    assert torch.equal(again[1][apart], ranges[apart])


def test_a_row_that_does_not_lie_evenly_around_zero_gains():
    state = torch.rand(1, 50, 32, generator=torch.Generator().manual_seed(0))
    rows = torch.arange(50)
    restored = unpack_int4(*state_pack.pack_int4(state, rows), state.shape)
    assert (restored - state).abs().max() < 1 / 15 / 2 + 0.01  # evenly around zero it would be 1 / 7 / 2


def unpack_int4(nibbles, ranges, shape):
    heads, key_dim, value_dim = shape
    restored = torch.full(shape, torch.nan)
    places = torch.arange(heads * key_dim, dtype=torch.int32)
    none = torch.empty(0, value_dim, dtype=torch.int8), torch.empty(0)
    state_pack.unpack(*none, places, restored, nibbles=nibbles, ranges=ranges)
    return restored


@given(
    st.lists(st.floats(-(2.0**99), 2.0**99, width=32), min_size=2, max_size=12),
    st.integers(1, 4),
)
def test_values_are_off_by_half_a_scale_and_packing_again_changes_nothing(numbers, num_rows):
    row = torch.tensor(numbers, dtype=torch.float32)
    state = row.repeat(1, num_rows, 1) * (1 + torch.arange(num_rows)).view(1, -1, 1)
    rows = torch.arange(num_rows)
    values, scales = state_pack.pack(state, rows)
    restored = torch.empty_like(state)
    state_pack.unpack(values, scales, rows.int(), restored)
    # A little more than half a scale: the products are rounded to float32.
    assert ((state - restored).abs()[0] <= scales.unsqueeze(-1) * 0.50001 + 1e-37).all()
    again, _ = state_pack.pack(restored, rows)
    normal = scales > 1e-35  # below, scales themselves are rounded coarsely
    assert torch.equal(again[normal], values[normal])


def test_rows_that_are_not_kept_are_zero():
    state = torch.full((2, 3, 4), torch.nan)
    values, scales = state_pack.pack(torch.ones(2, 3, 4), torch.tensor([1, 4]))
    places = torch.tensor([-1, 0, -1, -1, 1, -1], dtype=torch.int32)
    state_pack.unpack(values, scales, places, state)
    assert state.sum(dim=-1).tolist() == [[0, 4, 0], [0, 4, 0]]


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match=r"state has shape \[2, 3\]"):
        state_pack.pack(torch.ones(2, 3), torch.tensor([0]))
    with pytest.raises(ValueError, match=r"state has shape \[3\]"):
        state_pack.pack_int4(torch.ones(3), torch.tensor([0]))
    with pytest.raises(ValueError, match=r"nibbles must be uint8 \[m, half\]"):
        unpack_int4(torch.ones(1, 2, dtype=torch.uint8), torch.ones(1, 2, dtype=torch.bfloat16), (1, 1, 5))
    with pytest.raises(ValueError, match="places must be int32"):
        state_pack.unpack(
            torch.ones(1, 4, dtype=torch.int8), torch.ones(1), torch.zeros(5, dtype=torch.int32), torch.ones(2, 3, 4)
        )
