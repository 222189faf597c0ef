"""The engine that suits a model and a machine, by itself or as asked for, with the reason in words."""

from __future__ import annotations

import pytest

from agentform.errors import InvalidRequest, ModelNotFound
from agentform.runtime import choice
from agentform.runtime.choice import choose_engine
from agentform.runtime.load import load_engine
from agentform.runtime.models.machine import Machine, this_machine
from tests.support.extras import needs_llama_cpp
from tests.support.gguf_zoo import write_tiny_gguf

AVX2 = Machine(processor="x86_64", has_bfloat16=False, has_cuda=False, has_torch=True, has_llama_cpp=True)
AVX512 = Machine(processor="x86_64", has_bfloat16=True, has_cuda=False, has_torch=True, has_llama_cpp=True)
GPU = Machine(processor="x86_64", has_bfloat16=False, has_cuda=True, has_torch=True, has_llama_cpp=True)
NO_LLAMA = Machine(processor="aarch64", has_bfloat16=False, has_cuda=False, has_torch=True, has_llama_cpp=False)


@pytest.fixture
def places(monkeypatch, tmp_path):
    """Nothing is fetched."""
    monkeypatch.setattr(choice, "catalogue_gguf", lambda entry, progress: tmp_path / entry.gguf)
    monkeypatch.setattr(choice, "resolve_model", lambda name, progress: tmp_path / name)


@pytest.mark.parametrize(
    ("machine", "engine", "why"),
    [
        (AVX2, "llama_cpp", "no bfloat16 arithmetic"),
        (AVX512, "torch", "bfloat16 on this processor"),
        (GPU, "torch", "on the GPU"),
        (NO_LLAMA, "torch", "[llama]"),
    ],
)
def test_a_model_that_both_run_goes_to_the_faster_one(places, machine, engine, why):
    found = choose_engine("smollm2-135m", machine=machine)
    assert found.engine == engine
    assert why in found.why


@pytest.mark.parametrize("machine", [AVX2, AVX512, GPU])
def test_every_choice_can_be_overridden(places, machine):
    assert choose_engine("smollm2-135m", asked="torch", machine=machine).engine == "torch"
    assert choose_engine("smollm2-135m", asked="llama_cpp", machine=machine).engine == "llama_cpp"
    assert choose_engine("smollm2-135m", settings={"dtype"}, machine=machine).engine == "torch"


def test_a_model_of_which_there_is_a_gguf_only_runs_on_llama_cpp(places):
    assert choose_engine("qwen2.5-coder-0.5b", machine=AVX512).engine == "llama_cpp"
    with pytest.raises(InvalidRequest, match="GGUF file only"):
        choose_engine("qwen2.5-coder-0.5b", asked="torch", machine=AVX512)


def test_a_file_says_why_it_runs_on_llama_cpp_and_nowhere_else(tmp_path):
    file = write_tiny_gguf("attention", tmp_path / "tiny.gguf")
    assert "GGUF" in choose_engine(str(file)).why
    with pytest.raises(InvalidRequest, match="safetensors"):
        choose_engine(str(file), asked="torch")
    with pytest.raises(InvalidRequest, match="there is no engine 'onnx'"):
        choose_engine(str(file), asked="onnx")


def test_a_folder_without_gguf_is_not_for_llama_cpp(places, tmp_path):
    with pytest.raises(InvalidRequest, match="no GGUF file"):
        choose_engine(str(tmp_path), asked="llama_cpp")


@needs_llama_cpp
def test_load_engine_takes_files_and_folders_and_the_settings_of_their_engine(tmp_path):
    file = write_tiny_gguf("attention", tmp_path / "tiny.gguf")
    for name in (str(file), str(tmp_path)):
        engine = load_engine(name, kv_budget_bytes=1 << 20, num_threads=1)
        assert engine.info.name == name
        assert "GGUF" in engine.info.why
        engine.close()
    with pytest.raises(InvalidRequest, match=r"takes no dtype; it takes .*num_threads"):
        load_engine(str(file), dtype="float32")
    with pytest.raises(ModelNotFound, match=r"no file .*none\.gguf"):
        load_engine(str(tmp_path / "none.gguf"))
    with pytest.raises(InvalidRequest, match="says what runs it"):
        load_engine("sglang:some/model", engine="torch")


def test_this_machine_is_told_without_importing_torch():
    assert this_machine().has_torch
    assert this_machine().processor
