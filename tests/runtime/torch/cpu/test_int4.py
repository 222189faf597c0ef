from __future__ import annotations

import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType
from gguf.quants import dequantize, quantize
from torch import nn

from agentform.runtime.models.int4_file import FOUR_BIT_FILE, FourBitFile, FourBitWeight, split_q4_1, write_four_bit
from agentform.runtime.torch.cpu import int4 as four_bit_linear
from agentform.runtime.torch.cpu.int4 import FourBitLinear, can_multiply_four_bit, dequantised

needs_operator = pytest.mark.skipif(not can_multiply_four_bit(), reason="this build of torch has no 4-bit product")


def blocks(rows: int, columns: int) -> np.ndarray:
    values = np.random.default_rng(rows).normal(size=(rows, columns)).astype(np.float32)
    return quantize(values, GGMLQuantizationType.Q4_1)


def weight(rows: int, columns: int) -> FourBitWeight:
    return FourBitWeight(**{name: torch.from_numpy(part) for name, part in split_q4_1(blocks(rows, columns)).items()})


@pytest.mark.parametrize(("rows", "columns"), [(1, 32), (3, 64), (48, 96)])
def test_codes_mean_what_the_gguf_library_says(rows, columns):
    expected = dequantize(blocks(rows, columns), GGMLQuantizationType.Q4_1)
    assert torch.equal(dequantised(weight(rows, columns)), torch.from_numpy(expected))


def test_a_file_gives_back_what_was_written(tmp_path):
    parts = {name: split_q4_1(blocks(16, 64)) for name in ("a.b", "c")}
    write_four_bit(parts, tmp_path)
    file = FourBitFile(tmp_path / FOUR_BIT_FILE)
    assert [name in file for name in ("a.b", "c", "d")] == [True, True, False]
    assert torch.equal(dequantised(file.read("c")), dequantised(weight(16, 64)))
    assert [path.name for path in tmp_path.iterdir()] == [FOUR_BIT_FILE]


def test_without_weights_there_is_no_file(tmp_path):
    write_four_bit({}, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_file_of_another_version_is_refused(tmp_path):
    from safetensors.numpy import save_file

    save_file({"x": np.zeros(1)}, tmp_path / FOUR_BIT_FILE, metadata={"version": "0"})
    with pytest.raises(ValueError, match="version 0"):
        FourBitFile(tmp_path / FOUR_BIT_FILE)


@needs_operator
@pytest.mark.parametrize(("out", "inner"), [(16, 32), (48, 96), (80, 160), (192, 576)])
@pytest.mark.parametrize("rows", [1, 3, 8, 9])
@pytest.mark.parametrize("has_bias", [True, False])
def test_the_layer_computes_the_product(out, inner, rows, has_bias):
    torch.manual_seed(0)
    inputs = torch.randn(1, rows, inner).bfloat16()
    bias = torch.randn(out).bfloat16() if has_bias else None
    with torch.inference_mode():
        got = FourBitLinear(weight(out, inner), bias=bias)(inputs)
    expected = inputs.float() @ dequantised(weight(out, inner)).T + (0 if bias is None else bias.float())
    assert got.shape == (1, rows, out)
    assert (got.float() - expected).abs().max() < 0.01 * expected.abs().max()


@needs_operator
def test_many_rows_go_to_the_wide_layer_and_few_do_not():
    layer = FourBitLinear(weight(16, 32), wide=nn.Linear(32, 16, bias=False).bfloat16())
    nn.init.zeros_(layer._wide.weight)
    with torch.inference_mode():
        assert layer(torch.ones(8, 32).bfloat16()).any()
        assert not layer(torch.ones(9, 32).bfloat16()).any()


@needs_operator
@pytest.mark.parametrize("rows", [1, 4])
def test_float32_comes_in_and_goes_out(rows):
    torch.manual_seed(0)
    inputs, bias = torch.randn(rows, 64), torch.randn(48)
    with torch.inference_mode():
        got = FourBitLinear(weight(48, 64), bias=bias, dtype=torch.float32)(inputs)
    expected = inputs @ dequantised(weight(48, 64)).T + bias
    assert got.dtype == torch.float32
    assert (got - expected).abs().max() < 0.01 * expected.abs().max()


@pytest.mark.parametrize("capability", ["DEFAULT", "NO AVX", "SVE256"])
def test_where_the_operator_goes_through_weights_one_by_one_it_is_not_used(monkeypatch, capability):
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
    assert not can_multiply_four_bit()


def test_layers_that_the_operator_does_not_take_are_named():
    assert FourBitLinear.fits(weight(48, 32))
    assert not FourBitLinear.fits(weight(24, 32))


def test_a_build_without_the_operators_is_noticed(monkeypatch):
    def missing(*_):
        raise AttributeError("no such operator")

    monkeypatch.setattr(four_bit_linear, "_convert", missing)
    assert not can_multiply_four_bit()


def test_operators_that_compute_something_else_are_not_used(monkeypatch):
    monkeypatch.setattr(four_bit_linear, "_convert", lambda codes: codes)
    monkeypatch.setattr(four_bit_linear, "_multiply", lambda rows, packed, _: rows @ packed.bfloat16().T)
    assert not can_multiply_four_bit()
