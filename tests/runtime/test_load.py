from __future__ import annotations

import json
import subprocess
import sys
from contextlib import closing
from importlib.metadata import PackageNotFoundError

import anyio
import pytest
import torch
from transformers import AutoModelForCausalLM

from agentform.errors import CacheBudgetExceeded, EngineError, InvalidRequest, MissingDependency, ModelNotFound
from agentform.runtime.load import load_engine
from agentform.runtime.models.digest import digest_of
from agentform.runtime.sglang.wire import versions
from agentform.runtime.tokenizer.hf_tokenizer import HFTokenizer
from agentform.runtime.torch.engine import TorchEngine
from agentform.runtime.torch.forward import memory_plan as budget
from agentform.runtime.torch.forward.kv_pool import LayerShape
from agentform.runtime.torch.forward.memory_plan import checked_budget_bytes
from agentform.runtime.torch.forward.transformers_adapter import Layers, load_model, probe_layers
from agentform.runtime.torch.loaded_model import LoadedModel, default_dtype
from tests.support.engines import complete
from tests.support.tiny_model import greedy

CPU = torch.device("cpu")


def rewrite(source, target, **changes):
    """A copy of a model folder with changes to config.json."""
    target.mkdir()
    for file in source.iterdir():
        (target / file.name).write_bytes(file.read_bytes())
    config = json.loads((source / "config.json").read_text())
    (target / "config.json").write_text(json.dumps(config | changes))
    return target


def test_a_folder_becomes_an_engine(tiny):
    engine = load_engine(str(tiny.folder), kv_budget_bytes=1 << 20)
    assert engine.info.name == str(tiny.folder)
    assert engine.info.vocabulary_size == tiny.reference.config.vocab_size
    assert engine.statistics().budget_bytes == 1 << 20
    engine.close()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"device": "warp"}, "'warp' is no device"),
        ({"device": "cuda:97"}, "cuda:97 is not there"),
        ({"dtype": "int8"}, "'int8' is no dtype"),
        ({"dtype": "nonsense"}, "bfloat16, float16 and float32"),
    ],
)
def test_devices_and_dtypes_that_are_none_are_named(tiny, options, said):
    with pytest.raises(InvalidRequest, match=said):
        load_engine(str(tiny.folder), **options)


def test_a_dtype_may_be_named(tiny):
    with closing(load_engine(str(tiny.folder), dtype="float32", device="cpu", kv_budget_bytes=1 << 20)) as engine:
        assert engine.memory_plan.position_bytes == 3 * 2 * 2 * 8 * 4


def test_an_unknown_name_is_not_found():
    with pytest.raises(ModelNotFound):
        load_engine("no-such-model")


def test_sglang_that_is_missing_or_another_version_is_refused_by_name(monkeypatch):
    def missing(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr(versions, "version", missing)
    with pytest.raises(MissingDependency, match=r"\[sglang\]"):
        load_engine("sglang:Qwen/Qwen3-0.6B")
    monkeypatch.setattr(versions, "version", lambda name: "0.4.1")
    with pytest.raises(EngineError, match=r"sglang 0\.4\.1 .* supports 0\.5\.21"):
        load_engine("sglang:Qwen/Qwen3-0.6B")


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"layer_types": ["full_attention", "sliding_attention", "full_attention"]}, "sliding_attention"),
        ({"sliding_window": 64}, "sliding window"),
    ],
)
def test_models_that_are_not_plain_attention_are_refused(tiny, tmp_path, changes, match):
    folder = rewrite(tiny.folder, tmp_path / "model", **changes)
    with pytest.raises(EngineError, match=match):
        load_engine(str(folder))


def test_every_layer_is_seen(tiny):
    model = load_model(tiny.folder, dtype=torch.float32, device=CPU)
    shape = LayerShape(num_kv_heads=2, key_dim=8, value_dim=8)
    assert probe_layers(model) == Layers(attention={0: shape, 1: shape, 2: shape}, recurrent={})


class Recurrent(torch.nn.Module):
    """Stands in for a layer that keeps a state instead of keys and values."""

    def forward(self, hidden_states, **_):
        return hidden_states, None


def test_a_layer_that_does_not_attend_is_refused(tiny):
    model = load_model(tiny.folder, dtype=torch.float32, device=CPU)
    model.model.layers[1].self_attn = Recurrent()
    with pytest.raises(EngineError, match="2 of 3 layers"):
        probe_layers(model)


def test_a_model_loaded_elsewhere_can_be_served(tiny):
    model = AutoModelForCausalLM.from_pretrained(tiny.folder, dtype=torch.float32)
    parts = LoadedModel(model=model, tokenizer=HFTokenizer(tiny.folder), name="mine", digest="0")
    with closing(TorchEngine(parts, kv_budget_bytes=1 << 20)) as engine:
        answer = anyio.run(complete, engine, (20, 21, 22), 6)
    assert answer.token_ids == greedy(tiny.reference, (20, 21, 22), 6)


def test_digest_follows_dtype_and_files(tiny, tmp_path):
    folder = rewrite(tiny.folder, tmp_path / "model")
    first = digest_of(folder, torch.float32)
    assert digest_of(folder, torch.float32) == first
    assert digest_of(folder, torch.bfloat16) != first
    (folder / "config.json").write_text("{}")
    assert digest_of(folder, torch.float32) != first


def test_digest_is_the_manifests_where_there_is_one(tiny, tmp_path):
    digests = set()
    for name, manifest in (("a", '{"x": 1}'), ("b", '{"x": 1}'), ("c", '{"x": 2}')):
        folder = rewrite(tiny.folder, tmp_path / name)
        (folder / "manifest.json").write_text(manifest)
        digests.add(digest_of(folder, torch.float32))
    assert len(digests) == 2


@pytest.mark.parametrize(
    ("device", "free", "expected"),
    [
        ("cuda:0", 80 << 30, 60 << 30),
        ("cuda:0", 1 << 30, 3 << 28),
        ("cpu", 2 << 30, 1 << 29),
        ("cpu", 512 << 30, 4 << 30),
        ("cpu", None, 1 << 30),
    ],
)
def test_default_budget_is_a_share_of_the_free_memory(monkeypatch, device, free, expected):
    monkeypatch.setattr(budget, "free_bytes", lambda device: free)
    assert checked_budget_bytes(None, torch.device(device)) == expected


def test_default_budget_is_bounded_on_a_cpu():
    assert 0 < checked_budget_bytes(None, CPU) <= 4 << 30


def test_a_budget_beyond_a_gpus_free_memory_is_refused_with_the_numbers(monkeypatch):
    gpu = torch.device("cuda:0")
    monkeypatch.setattr(budget, "free_bytes", lambda device: 4_000)
    assert checked_budget_bytes(4_000, gpu) == 4_000
    assert checked_budget_bytes(None, gpu) == 3_000
    with pytest.raises(CacheBudgetExceeded, match="5,000 bytes does not fit: cuda:0 has 4,000 bytes free"):
        checked_budget_bytes(5_000, gpu)
    assert checked_budget_bytes(5_000, CPU) == 5_000  # its pages are given when they are written


def test_memory_that_torch_holds_for_later_use_is_free(monkeypatch):
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (100, 1_000))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: 70)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: 30)
    assert budget.free_bytes(torch.device("cuda")) == 140


def test_a_gpu_that_only_emulates_bfloat16_computes_in_float32(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation=True: including_emulation)
    assert default_dtype(torch.device("cuda")) == torch.float32


def test_the_seam_imports_no_torch():
    program = (
        "import sys, agentform.runtime.engine, agentform.runtime.load, agentform.runtime.cache.prefix_cache;"
        "sys.exit('torch' in sys.modules or 'transformers' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
