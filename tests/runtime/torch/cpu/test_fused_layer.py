from __future__ import annotations

import pytest
import torch
from torch import nn
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    Olmo2Config,
    Olmo2ForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
)

from agentform.runtime.scheduling.segment import Segment
from agentform.runtime.torch.cpu.fused_layer import FusedBlock, fuse_blocks, merged
from agentform.runtime.torch.forward.runner import ModelRunner

SIZES = {
    "vocab_size": 60,
    "hidden_size": 48,
    "intermediate_size": 72,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "initializer_range": 0.3,
}
KNOWN = {
    "llama": lambda: LlamaForCausalLM(LlamaConfig(**SIZES)),
    "llama with biases": lambda: LlamaForCausalLM(LlamaConfig(**SIZES, attention_bias=True, mlp_bias=True)),
    "llama with a head of another width": lambda: LlamaForCausalLM(LlamaConfig(**SIZES, head_dim=16)),
    "mistral": lambda: MistralForCausalLM(MistralConfig(**SIZES, sliding_window=None)),
    "qwen2": lambda: Qwen2ForCausalLM(Qwen2Config(**SIZES)),
}
IDS = (3, 1, 4, 1, 5, 9, 2, 6)


def fuse(model):
    return fuse_blocks(model, lambda _, linears: merged(linears))


def randomised(model):
    """With norms and biases that are not what they start as."""
    for parameter in model.parameters():
        if parameter.dim() == 1:
            nn.init.uniform_(parameter, 0.5, 1.5)
    return model.eval()


@pytest.mark.parametrize("make", KNOWN.values(), ids=KNOWN.keys())
def test_fused_layers_compute_the_same(make):
    torch.manual_seed(0)
    model = randomised(make())
    with torch.no_grad():
        expected = model(torch.tensor([IDS])).logits[0]
    assert fuse(model) == 3
    runner = ModelRunner(model, kv_budget_bytes=1 << 20)
    first = Segment(token_ids=IDS[:5], num_before=0, runs=((0, 5),), rows=(0, 1, 2, 3, 4))
    rest = [
        Segment(token_ids=(token,), num_before=at, runs=((0, at + 1),), rows=(0,))
        for at, token in enumerate(IDS)
        if at >= 5
    ]
    got = torch.cat([runner.compute([segment])[0] for segment in (first, *rest)])
    torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("rows", [(), (4,), (1, 3), (0, 1, 2, 3, 4)])
def test_only_the_rows_that_are_asked_for_pass_the_last_layer(rows):
    torch.manual_seed(0)
    model = randomised(KNOWN["llama"]())
    with torch.no_grad():
        expected = model(torch.tensor([IDS])).logits[0]
    fuse(model)
    runner = ModelRunner(model, kv_budget_bytes=1 << 20)
    first = runner.compute([Segment(token_ids=IDS[:5], num_before=0, runs=((0, 5),), rows=rows)])[0]
    torch.testing.assert_close(first, expected[list(rows)], rtol=1e-4, atol=1e-4)
    then = runner.compute([Segment(token_ids=IDS[5:], num_before=5, runs=((0, 8),), rows=(2,))])[0]
    torch.testing.assert_close(then, expected[-1:], rtol=1e-4, atol=1e-4)


def test_layers_of_another_kind_stay_as_they_are():
    model = Olmo2ForCausalLM(Olmo2Config(**SIZES))
    layers = [*model.model.layers]
    assert fuse(model) == 0
    assert [*model.model.layers] == layers


def test_a_model_with_one_layer_of_its_own_stays_as_it_is():
    model = KNOWN["llama"]()

    class Own(type(model.model.layers[0])):
        pass

    model.model.layers[1] = Own(model.config, 1)
    assert fuse(model) == 0
    assert not any(isinstance(module, FusedBlock) for module in model.modules())


def test_what_is_no_language_model_of_that_shape_stays_as_it_is():
    assert fuse(nn.Linear(2, 2)) == 0
