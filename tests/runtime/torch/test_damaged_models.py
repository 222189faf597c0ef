"""A model folder is somebody else's: what is missing, cut off or made up is a typed error that names it."""

from __future__ import annotations

import contextlib
import json
import random
import shutil
import struct

import anyio
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from agentform.errors import AgentformError, EngineError, WeightsCorrupt
from agentform.runtime.engine import Branch, GenerateRequest, Sampling, ScoreRequest
from agentform.runtime.models.gguf import convert_gguf
from agentform.runtime.torch.engine import TorchEngine
from tests.support.tiny_gguf import tiny_wheel

PROMPT = tuple(range(20, 40))


@pytest.fixture
def folder(tiny, tmp_path):
    return shutil.copytree(tiny.folder, tmp_path / "model")


def load(folder) -> TorchEngine:
    return TorchEngine(folder, dtype=torch.float32, kv_budget_bytes=1 << 20, num_threads=1)


def change_config(folder, **changes) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def change_weights(folder, change) -> None:
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


@pytest.mark.parametrize("name", ["model.layers.1.mlp.up_proj.weight", "model.norm.weight", "lm_head.weight"])
def test_a_tensor_that_is_missing_is_named(folder, name):
    change_weights(folder, lambda tensors: tensors.pop(name))
    with pytest.raises(WeightsCorrupt, match=name.replace(".", r"\.")):
        load(folder)


def test_a_tensor_of_another_shape_is_refused(folder):
    change_weights(folder, lambda tensors: tensors.update({"model.norm.weight": torch.ones(7)}))
    with pytest.raises(WeightsCorrupt, match="model"):
        load(folder)


@pytest.mark.parametrize(
    "changes",
    [
        {"num_hidden_layers": 10**9},
        {"num_hidden_layers": -1},
        {"hidden_size": "48"},
        {"vocab_size": 2**62},
        {"num_attention_heads": 0},
        {"num_key_value_heads": 5},
        {"model_type": "no such model"},
        {"model_type": ["llama"]},
        {"rope_parameters": "x"},
        {"rms_norm_eps": None},
        {"hidden_act": "exec"},
        {"num_hidden_layers": 4},
        {"auto_map": {"AutoConfig": "code.Config", "AutoModelForCausalLM": "code.Model"}, "model_type": "own"},
    ],
)
def test_a_configuration_that_makes_no_sense_is_refused(folder, changes):
    change_config(folder, **changes)
    with pytest.raises(EngineError):
        load(folder)


@pytest.mark.parametrize("text", ["", "[]", "{", '"x"', "{}", "\ud800"])
@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "tokenizer_config.json", "generation_config.json"])
def test_a_file_that_is_no_json_object_of_its_kind_is_refused_or_does_not_matter(folder, name, text):
    (folder / name).write_bytes(text.encode(errors="surrogatepass"))
    with contextlib.suppress(EngineError):
        load(folder).close()


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_weights_that_are_cut_off_or_changed_in_their_header_are_refused(tiny, tmp_path_factory, data):
    folder = shutil.copytree(tiny.folder, tmp_path_factory.mktemp("damaged") / "model")
    path = folder / "model.safetensors"
    whole = path.read_bytes()
    (header,) = struct.unpack("<Q", whole[:8])
    if data.draw(st.booleans()):
        path.write_bytes(whole[: data.draw(st.integers(0, len(whole) - 1))])
        with pytest.raises(WeightsCorrupt):
            load(folder)
        return
    at = data.draw(st.integers(0, 8 + header - 1))
    path.write_bytes(whole[:at] + data.draw(st.binary(min_size=1, max_size=1)) + whole[at + 1 :])
    with contextlib.suppress(EngineError):
        load(folder).close()


@pytest.mark.anyio
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("temperature", [0.0, 1.0, 1e-38])
async def test_logits_that_are_no_numbers_are_an_error_and_no_token(folder, value, temperature):
    change_weights(folder, lambda tensors: tensors["model.norm.weight"].fill_(value))
    engine = load(folder)
    request = GenerateRequest(prompt_ids=PROMPT, max_tokens=2, sampling=Sampling(temperature=temperature))
    try:
        with pytest.raises(EngineError, match="instead of logits"):
            _ = [chunk async for chunk in engine.generate(request)]
        with pytest.raises(EngineError, match="instead of logits"):
            await engine.score(ScoreRequest(prompt_ids=PROMPT, branches=(Branch(path=(), candidates=(1, 2)),)))
    finally:
        await engine.aclose()


@pytest.mark.anyio
@pytest.mark.parametrize("top_p", [1.0, 1e-300])
@pytest.mark.parametrize("temperature", [1e-30, 1e-38, 5e-324])
async def test_the_lowest_temperatures_are_greedy(engine, temperature, top_p):
    async def tokens(sampling):
        request = GenerateRequest(prompt_ids=PROMPT, max_tokens=6, sampling=sampling)
        return [token async for chunk in engine.generate(request) for token in chunk.token_ids]

    greedy = await tokens(Sampling())
    assert await tokens(Sampling(temperature=temperature, top_p=top_p, seed=5)) == greedy
    await anyio.lowlevel.checkpoint()


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32))
def test_a_hostile_gguf_is_refused_or_converted(gguf, tmp_path_factory, seed):
    """Sizes, counts and offsets in its head are changed to what may be worst."""
    dice, data = random.Random(seed), bytearray(gguf)
    for _ in range(dice.randrange(1, 4)):
        width = dice.choice([1, 4, 8])
        at = dice.randrange(0, min(len(data), 4000) - width)
        worst = [0, 1, 2**31 - 1, 2**32 - 1, 2**62, 2**63, 2**64 - 1, dice.getrandbits(64)]
        data[at : at + width] = (dice.choice(worst) & (1 << 8 * width) - 1).to_bytes(width, "little")
    if dice.random() < 0.3:
        del data[dice.randrange(len(data)) :]
    place = tmp_path_factory.mktemp("gguf")
    (place / "x.gguf").write_bytes(data)
    with contextlib.suppress(AgentformError):
        convert_gguf(place / "x.gguf", place)


@pytest.fixture(scope="module")
def gguf(tmp_path_factory) -> bytes:
    place = tmp_path_factory.mktemp("wheel")
    tiny_wheel(place)
    return (place / "tiny.gguf").read_bytes()
