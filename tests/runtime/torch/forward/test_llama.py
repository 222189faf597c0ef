"""agentform's own definition of a model computes what transformers' computes, bit for bit."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
import torch
from safetensors.torch import save_file
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
)

from agentform.runtime.torch.forward.llama import DenseConfig, DenseModel, load_dense_model
from agentform.runtime.torch.forward.transformers_adapter import forward, load_model, prepare

SHAPE = {
    "vocab_size": 61,
    "hidden_size": 48,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "initializer_range": 0.3,
}
MODELS = {
    "llama": lambda: LlamaForCausalLM(LlamaConfig(**SHAPE)),
    "llama, tied": lambda: LlamaForCausalLM(LlamaConfig(**SHAPE, tie_word_embeddings=True)),
    "llama, biased": lambda: LlamaForCausalLM(LlamaConfig(**SHAPE, attention_bias=True, mlp_bias=True)),
    "llama, wide heads": lambda: LlamaForCausalLM(LlamaConfig(**SHAPE, head_dim=16)),
    "mistral": lambda: MistralForCausalLM(MistralConfig(**SHAPE, sliding_window=None)),
    "qwen2": lambda: Qwen2ForCausalLM(Qwen2Config(**SHAPE)),
}


class Attending:
    """Plain causal attention over the tokens of the step, in the place of the engine's."""

    rows = torch.tensor([0, 7, 11])

    def attend(self, layer, query, key, value, scale):
        group = query.shape[1] // key.shape[1]
        key, value = key.repeat_interleave(group, 1), value.repeat_interleave(group, 1)
        out = torch.nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True, scale=scale)
        return out.transpose(1, 2)


def logits(model):
    ids = torch.arange(12).reshape(1, 12) * 5 % 61
    places = torch.arange(3, 15).reshape(1, 12)
    with torch.inference_mode():
        return forward(model, Attending(), ids, places)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", MODELS)
def test_it_computes_what_transformers_computes(tmp_path, name, dtype):
    torch.manual_seed(3)
    theirs = MODELS[name]()
    for parameter in theirs.parameters():  # biases and norms begin as constants
        torch.nn.init.normal_(parameter, std=0.3)
    theirs.save_pretrained(tmp_path)
    theirs = type(theirs).from_pretrained(tmp_path, dtype=dtype)
    ours = load_model(tmp_path, dtype=dtype, device=torch.device("cpu"))
    assert isinstance(ours, DenseModel)
    assert torch.equal(logits(ours), logits(prepare(theirs.eval())))


def test_weights_in_several_files_are_found(tmp_path):
    theirs = MODELS["llama"]()
    theirs.save_pretrained(tmp_path, max_shard_size="20KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 1
    ours = load_dense_model(tmp_path, dtype=torch.float32, device=torch.device("cpu"))
    assert ours is not None
    assert torch.equal(logits(prepare(ours)), logits(prepare(theirs.eval())))


@pytest.mark.parametrize(
    "said",
    [
        {"model_type": "gemma"},
        {"hidden_act": "gelu"},
        {"sliding_window": 16},
        {"rope_scaling": {"rope_type": "linear", "factor": 2.0}, "rope_parameters": None},
        {"rope_parameters": {"rope_type": "llama3", "rope_theta": 1e4, "factor": 8.0}},
        {"rope_parameters": None},
        {"layer_types": ["full_attention", "sliding_attention"]},
        {"quantization_config": {"bits": 4}},
        {"auto_map": {"AutoModel": "x"}},
        {"rms_norm_eps": None},
    ],
)
def test_what_is_not_known_is_left_to_transformers(said):
    known = json.loads(LlamaConfig(**SHAPE).to_json_string(use_diff=False))
    assert DenseConfig.of(known) is not None
    assert DenseConfig.of(known | said) is None


def test_other_files_of_tensors_in_the_folder_are_not_read(tmp_path):
    MODELS["llama"]().save_pretrained(tmp_path)
    save_file({"more": torch.zeros(2)}, tmp_path / "more.safetensors")
    assert load_dense_model(tmp_path, dtype=torch.float32, device=torch.device("cpu")) is not None
    (tmp_path / "model.safetensors").unlink()
    assert load_dense_model(tmp_path, dtype=torch.float32, device=torch.device("cpu")) is None


def test_a_model_with_other_tensors_is_left_to_transformers(tmp_path):
    theirs = MODELS["llama"]()
    theirs.model.layers[0].self_attn.q_norm = torch.nn.Linear(2, 2)
    theirs.save_pretrained(tmp_path)
    assert load_dense_model(tmp_path, dtype=torch.float32, device=torch.device("cpu")) is None


def test_rope_theta_is_read_where_older_configurations_have_it():
    known = json.loads(LlamaConfig(**SHAPE).to_json_string(use_diff=False))
    config = DenseConfig.of({**known, "rope_parameters": None, "rope_theta": 500.0})
    assert config is not None
    assert config.rope_theta == 500.0


def test_a_model_is_loaded_without_transformers_and_without_torchs_compiler(tmp_path):
    MODELS["llama"]().save_pretrained(tmp_path)
    code = (
        "import sys, torch\nfrom pathlib import Path\nimport agentform.runtime.torch.engine\n"
        "from agentform.runtime.torch.forward.transformers_adapter import load_model, probe_layers\n"
        f"model = load_model(Path({str(tmp_path)!r}), dtype=torch.float32, device=torch.device('cpu'))\n"
        "probe_layers(model)\nprint('transformers' in sys.modules, 'torch._dynamo' in sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["False", "False"]
