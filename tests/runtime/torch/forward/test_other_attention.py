"""Families whose attention is another than plain causal attention: computed as transformers does, or refused."""

from __future__ import annotations

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from agentform.errors import EngineError
from agentform.runtime.torch.forward.transformers_adapter import forward, prepare, probe_layers

TOKENS, WINDOW = 24, 6
SMALL = {
    "vocab_size": 97,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 128,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
    "num_local_experts": 4,
    "num_experts": 4,
    "num_experts_per_tok": 2,
}
REFUSED = {
    "gemma2": ({"sliding_window": WINDOW}, "llama.cpp"),
    "gemma2, all layers full": ({"sliding_window": None, "layer_types": ["full_attention"] * 2}, "soft cap.*llama.cpp"),
    "gemma3_text": ({"sliding_window": WINDOW}, "llama.cpp"),
    "gemma4_text": ({"sliding_window": WINDOW}, "llama.cpp"),
    "gpt_oss": ({"sliding_window": WINDOW}, "llama.cpp"),
    "gpt_oss, all layers full": ({"sliding_window": None, "layer_types": ["full_attention"] * 2}, "sinks.*llama.cpp"),
    "mistral": ({"sliding_window": WINDOW}, "window of 6 tokens.*llama.cpp"),
    "ministral": ({"sliding_window": WINDOW}, "llama.cpp"),
    "phi3": ({"sliding_window": WINDOW}, "llama.cpp"),
    "cohere2": ({"sliding_window": WINDOW}, "llama.cpp"),
    "qwen2": ({"sliding_window": WINDOW, "use_sliding_window": True, "max_window_layers": 0}, "llama.cpp"),
    "bert": ({}, "causal"),
}
SERVED = {
    "gemma": {},
    "mistral": {"sliding_window": None},
    "qwen3": {},
    "phi3": {"sliding_window": None},
}


class Causal:
    """All tokens at once, by the definition."""

    rows = torch.arange(TOKENS)

    def attend(self, layer, query, key, value, scale):
        key, value = (each.repeat_interleave(query.shape[1] // each.shape[1], 1) for each in (key, value))
        later = ~torch.tril(torch.ones(TOKENS, TOKENS, dtype=torch.bool))
        weights = (query @ key.transpose(2, 3) * scale).masked_fill(later, float("-inf")).softmax(-1)
        return (weights @ value).transpose(1, 2)


def tiny(family, options):
    torch.manual_seed(0)
    try:
        config = AutoConfig.for_model(family, **SMALL, **options)
    except ValueError:
        pytest.skip(f"this transformers has no {family}")
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager", dtype=torch.float32).eval()
    for parameter in model.parameters():
        parameter.data.normal_(0, 0.3)
    return model


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_not_computed_is_refused_when_it_is_loaded(case):
    options, message = REFUSED[case]
    with pytest.raises(EngineError, match=message):
        probe_layers(prepare(tiny(case.split(",")[0], options)))


@pytest.mark.parametrize("family", SERVED)
def test_what_is_served_is_what_transformers_computes(family):
    model = tiny(family, SERVED[family])
    ids = torch.arange(3, 3 + TOKENS).unsqueeze(0)
    with torch.inference_mode():
        expected = model(input_ids=ids, use_cache=False).logits[0].clone()
        probe_layers(prepare(model))
        found = forward(model, Causal(), ids, torch.arange(TOKENS).unsqueeze(0))
    assert torch.allclose(found, expected, atol=1e-3)
