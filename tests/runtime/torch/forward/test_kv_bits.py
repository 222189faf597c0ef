"""Keys and values in 8 bits: close to what was written, and bytes that are exported and adopted as they are."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from agentform.runtime.torch.forward.kv_pool import KVPool, LayerShape, bytes_per_position

CPU = torch.device("cpu")


def pool(shape, *, kv_bits=8, positions=24):
    made = KVPool({0: shape}, positions, dtype=torch.float32, device=CPU, kv_bits=kv_bits)
    size = positions * bytes_per_position({0: shape}, torch.float32, kv_bits)
    made.write_bytes(((0, positions),), 0, torch.full((size,), 255, dtype=torch.uint8))
    return made


@given(
    heads=st.integers(1, 3),
    dims=st.tuples(st.sampled_from([1, 7, 32, 64, 80, 96]), st.sampled_from([5, 32, 33])),
    magnitude=st.sampled_from([0.0, 1e-7, 1e-3, 1.0, 300.0, 1e5]),
    seed=st.integers(0, 2**16),
)
def test_what_is_read_is_within_half_a_step_of_its_group(heads, dims, magnitude, seed):
    shape = LayerShape(num_kv_heads=heads, key_dim=dims[0], value_dim=dims[1])
    generator = torch.Generator().manual_seed(seed)
    written = [torch.randn(heads, 6, dim, generator=generator) * magnitude for dim in dims]
    kept = pool(shape)
    kept.write(0, *written, torch.tensor([3, 4, 5, 9, 17, 2]))
    for rows, read in zip(written, kept.read(0, ((3, 6), (9, 10), (17, 18), (2, 3)), torch.float32), strict=True):
        groups = rows.shape[2] // 32 if rows.shape[2] % 32 == 0 else 1
        largest = rows.unflatten(2, (groups, -1)).abs().amax(-1, keepdim=True)
        off = (rows - read).unflatten(2, (groups, -1)).abs()
        # A scale in float16 is off by 2^-11 of itself, or by as much as its smallest number.
        assert (off <= largest * (0.5 / 127 + 2**-10) + 127 * 2.0**-25).all()


def test_a_few_large_numbers_do_not_spoil_the_other_groups_of_a_head():
    shape = LayerShape(num_kv_heads=1, key_dim=64, value_dim=64)
    rows = torch.randn(1, 1, 64, generator=torch.Generator().manual_seed(1))
    rows[..., 5] = 400.0
    kept = pool(shape)
    kept.write(0, rows, rows, slice(0, 1))
    keys, _ = kept.read(0, ((0, 1),), torch.float32)
    assert (keys - rows)[..., 32:].abs().max() < 0.02


@pytest.mark.parametrize("dims", [(8, 8), (64, 96), (33, 5)])
def test_exported_bytes_are_adopted_as_they_are_however_positions_are_cut(dims):
    shape = LayerShape(num_kv_heads=2, key_dim=dims[0], value_dim=dims[1])
    source, target = pool(shape), pool(shape)
    rows = [torch.randn(2, 7, dim, generator=torch.Generator().manual_seed(2)) for dim in dims]
    source.write(0, *rows, slice(0, 7))
    data = source.export(((0, 4), (4, 7)))
    assert len(data) == 7 * bytes_per_position({0: shape}, torch.float32, 8)
    target.adopt(((10, 12), (20, 23)), data, 7, skip=2)
    for a, b in zip(
        source.read(0, ((2, 7),), torch.float32), target.read(0, ((10, 12), (20, 23)), torch.float32), strict=True
    ):
        assert torch.equal(a, b)


def test_a_snapshot_lies_in_positions_of_8_bits_too():
    shape = LayerShape(num_kv_heads=2, key_dim=32, value_dim=5)
    kept = pool(shape)
    size = 5 * bytes_per_position({0: shape}, torch.float32, 8)
    data = torch.randint(0, 256, (size,), generator=torch.Generator().manual_seed(3)).byte()
    kept.write_bytes(((1, 3), (8, 11)), 0, data)
    assert torch.equal(kept.read_bytes(((1, 3), (8, 11)), 0, size), data)


def test_the_memory_of_a_position_is_about_half_of_16_bits():
    layers = {0: LayerShape(num_kv_heads=3, key_dim=64, value_dim=64)}
    assert bytes_per_position(layers, torch.bfloat16, 8) == 3 * 2 * (64 + 4)
    assert bytes_per_position(layers, torch.bfloat16) == 3 * 2 * 128
