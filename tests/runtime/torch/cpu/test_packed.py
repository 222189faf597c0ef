from __future__ import annotations

import pytest
import torch
from torch import nn

from agentform.runtime.torch.cpu import packed as packed_linear
from agentform.runtime.torch.cpu.packed import PackedLinear, can_pack, pack_linears


@pytest.mark.skipif(not can_pack(), reason="this build of torch has no oneDNN")
@pytest.mark.parametrize("bias", [True, False])
def test_packed_layer_computes_the_same(bias):
    torch.manual_seed(0)
    layer = nn.Linear(48, 96, bias=bias).bfloat16()
    inputs = torch.randn(1, 7, 48).bfloat16()
    with torch.inference_mode():
        torch.testing.assert_close(PackedLinear(layer)(inputs), layer(inputs), rtol=0.02, atol=0.02)


@pytest.mark.skipif(not can_pack(), reason="this build of torch has no oneDNN")
def test_only_plain_bfloat16_layers_are_packed():
    class Special(nn.Linear):
        pass

    model = nn.ModuleDict(
        {"plain": nn.Linear(8, 8).bfloat16(), "wide": nn.Linear(8, 8), "special": Special(8, 8).bfloat16()}
    )
    assert pack_linears(model) == 1
    assert [type(model[name]) for name in ("plain", "wide", "special")] == [PackedLinear, nn.Linear, Special]


def test_without_the_operators_the_model_stays_as_it_is(monkeypatch):
    def missing(*_):
        raise AttributeError("no such operator")

    monkeypatch.setattr(packed_linear, "_pack", missing)
    layer = nn.Sequential(nn.Linear(8, 8).bfloat16())
    assert pack_linears(layer) == 0
    assert type(layer[0]) is nn.Linear


def test_operators_that_compute_something_else_are_not_used(monkeypatch):
    monkeypatch.setattr(packed_linear, "_pack", lambda weight: weight)
    monkeypatch.setattr(packed_linear, "_multiply", lambda inputs, packed, bias: inputs @ packed.T + 1)
    assert not can_pack()


@pytest.mark.skipif(not can_pack(), reason="this build of torch cannot pack")
def test_models_that_ask_a_layer_for_its_dtype_are_told():
    packed = PackedLinear(torch.nn.Linear(32, 64, bias=False).bfloat16())
    assert (packed.weight.dtype, packed.weight.device.type) == (torch.bfloat16, "cpu")
