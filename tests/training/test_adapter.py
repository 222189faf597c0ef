"""An adapter, trained on labelled examples: what it is worth, where it is served, and what it is refused for."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from agentform import fill_sync, load_engine
from agentform.engines import LlamaCppEngine, ScoreRequest, TorchEngine
from agentform.errors import InvalidInput, InvalidRequest, MissingDependency, ModelNotFound, WeightsCorrupt
from agentform.runtime.engine import Branch, Engine
from agentform.training.adapter import train_adapter
from agentform.training.material import FreeText
from agentform.training.settings import AdapterSettings, Progress
from agentform.training.train import weaken_until_text_keeps
from tests.support.tiny_model import write_tiny_model
from tests.training.conftest import COLOURS, SETTINGS, Taught, write_examples

# peft asks transformers for what that calls by another name now.
pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")]
_PROMPT = tuple(range(40, 90))
_CANDIDATES = tuple(range(30, 60))


async def _logprobs(engine: Engine) -> torch.Tensor:
    request = ScoreRequest(prompt_ids=_PROMPT, branches=(Branch(path=(), candidates=_CANDIDATES),))
    try:
        return torch.tensor((await engine.score(request)).logprobs[0])
    finally:
        await engine.aclose()


def _of_peft(taught: Taught) -> torch.Tensor:
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    model = PeftModel.from_pretrained(
        AutoModelForCausalLM.from_pretrained(taught.model, dtype=torch.float32), taught.adapter.folder
    )
    with torch.no_grad():
        return model(torch.tensor([_PROMPT])).logits[0, -1].log_softmax(-1)[list(_CANDIDATES)]


def test_held_out_decisions_are_better_than_before(taught):
    before, after = taught.adapter.before, taught.adapter.after
    assert after.surprise < before.surprise - 0.3
    assert after.accuracy >= before.accuracy
    assert taught.adapter.num_held_out == 3


def test_forms_are_filled_with_what_was_learnt(taught):
    schema = {"type": "object", "properties": {"colour": {"enum": list(COLOURS)}}, "required": ["colour"]}
    engine = load_engine("adapter:colours", engine="torch", num_threads=1)
    texts = [f"{colour} {n}" for n, colour in enumerate(COLOURS)]
    right = [fill_sync(engine, text, schema).value == {"colour": text.split()[0]} for text in texts]
    assert sum(right) >= 3


async def test_torch_serves_what_peft_computes(taught):
    without = await _logprobs(TorchEngine(taught.model, dtype=torch.float32, num_threads=1))
    served = await _logprobs(TorchEngine(taught.model, dtype=torch.float32, adapter="colours", num_threads=1))
    torch.testing.assert_close(served, _of_peft(taught), atol=1e-4, rtol=1e-4)
    assert (served - without).abs().max() > 0.01


async def test_llama_cpp_serves_what_peft_computes(taught):
    served = await _logprobs(LlamaCppEngine(taught.gguf, adapter="colours", kv_budget_bytes=1 << 20, num_threads=1))
    torch.testing.assert_close(served, _of_peft(taught), atol=2e-2, rtol=2e-2)


def test_what_was_cached_without_it_is_not_taken_for_it(taught):
    plain, adapted = (TorchEngine(taught.model, adapter=name, num_threads=1) for name in (None, "colours"))
    assert plain.info.digest != adapted.info.digest


def test_what_was_learnt_is_not_corrected_by_the_label_prior(taught):
    plain, adapted = (TorchEngine(taught.model, adapter=name, num_threads=1) for name in (None, "colours"))
    assert (plain.info.scoring, adapted.info.scoring) == ({}, {"calibration": 0.0})


def test_another_model_is_refused(taught, tmp_path):
    write_tiny_model(tmp_path / "other", seed=1)
    with pytest.raises(InvalidRequest, match="was trained for"):
        TorchEngine(tmp_path / "other", adapter="colours")
    with pytest.raises(InvalidRequest, match="was trained for"):
        train_adapter(str(tmp_path / "other"), taught.examples, name="colours")


def test_a_copy_of_the_model_is_the_same_model(taught, tmp_path):
    shutil.copytree(taught.model, tmp_path / "copy")
    assert TorchEngine(tmp_path / "copy", adapter="colours", num_threads=1).info.digest


def test_names_that_are_none_are_told(taught):
    with pytest.raises(ModelNotFound, match=r"there is .*\bcolours\b"):
        TorchEngine(taught.model, adapter="colour")
    with pytest.raises(InvalidInput, match="letters, digits"):
        train_adapter(str(taught.model), taught.examples, name="../up")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"use_dora": True}, "use_dora"),
        ({"r": None}, "rank"),
        ({"bias": "all"}, "bias"),
    ],
)
def test_adapters_that_are_more_than_a_product_are_refused(taught, tmp_path, change, told):
    folder = _copied(taught, tmp_path)
    config = folder / "adapter_config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | change))
    with pytest.raises(WeightsCorrupt, match=told):
        TorchEngine(taught.model, adapter=folder)


def test_damaged_adapters_are_refused(taught, tmp_path):
    folder = _copied(taught, tmp_path)
    weights, exported = folder / "adapter_model.safetensors", folder / "adapter.gguf"
    weights.write_bytes(weights.read_bytes()[:200])
    with pytest.raises(WeightsCorrupt, match="adapter"):
        TorchEngine(taught.model, adapter=folder)
    exported.write_bytes(exported.read_bytes()[:200])
    with pytest.raises(WeightsCorrupt, match=r"adapter\.gguf"):
        LlamaCppEngine(taught.gguf, adapter=folder, kv_budget_bytes=1 << 20)
    exported.unlink()
    with pytest.raises(MissingDependency, match="engine='torch'"):
        LlamaCppEngine(taught.gguf, adapter=folder, kv_budget_bytes=1 << 20)


def _copied(taught: Taught, folder: Path) -> Path:
    return Path(shutil.copytree(taught.adapter.folder, folder / "adapter"))


class _StoppedError(Exception):
    pass


def test_a_training_that_was_stopped_goes_on(taught):
    def stop(progress: Progress) -> None:
        if progress.step == 9:
            raise _StoppedError

    model = str(taught.model)
    with pytest.raises(_StoppedError):
        train_adapter(model, taught.examples, name="parts", settings=SETTINGS, num_threads=1, on_progress=stop)
    seen: list[int] = []
    again = train_adapter(
        model,
        taught.examples,
        name="parts",
        settings=SETTINGS,
        num_threads=1,
        on_progress=lambda progress: seen.append(progress.step),
    )
    assert seen[0] > 0
    folders = (taught.adapter.folder, again.folder)
    expected, found = (load_file(folder / "adapter_model.safetensors") for folder in folders)
    for name, values in expected.items():
        torch.testing.assert_close(found[name], values)


def test_what_makes_it_worse_is_not_kept(taught):
    settings = AdapterSettings(epochs=8, learning_rate=0.9, batch=8, patience=2)
    steps: list[Progress] = []
    trained = train_adapter(
        str(taught.model), taught.examples, name="wild", settings=settings, num_threads=1, on_progress=steps.append
    )
    assert trained.after.surprise <= trained.before.surprise
    assert max(progress.step for progress in steps[:-1]) < steps[0].num_steps - 1  # it stopped early


class _Drifting:
    """A model whose free text is the worse the more of its adapter is kept."""

    def __init__(self) -> None:
        self.kept = 1.0

    def state(self) -> float:
        return self.kept

    def restore(self, state: float) -> None:
        self.kept = state

    def weaken(self, strength: float) -> None:
        self.kept *= strength

    def text_surprise(self, prompt_ids: object, text_ids: object) -> float:
        return self.kept


@pytest.mark.parametrize(("most", "kept"), [(3.0, 1.0), (math.exp(0.7), 0.7), (math.exp(0.6), 0.55), (1.0, 0.1)])
def test_free_text_bounds_what_is_kept(most, kept):
    model: Any = _Drifting()
    strength, found = weaken_until_text_keeps(model, [FreeText(prompt_ids=(1,), text_ids=(2,))], most + 1e-9)
    assert (strength, model.kept) == (kept, kept)
    assert found == pytest.approx(math.exp(kept))


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("[1]", "JSON object"),
        ('{"text": "a", "field": "f", "options": ["x", "y"], "gold": "z"}', "line 1: .*'/f'"),
        ('{"text": "a"}', "line 1: .*call"),
        ('{"field": "f", "options": ["x", "y"], "gold": "x"}', "line 1: it has no 'text'"),
        ('{"text": "a", "tools": [], "call": {"name": "t", "arguments": {}}}', "line 1: .*'t'"),
        ("", "no example"),
    ],
)
def test_what_is_no_example_is_told_by_its_line(taught, tmp_path, line, told):
    file = tmp_path / "bad.jsonl"
    file.write_text(line + "\n")
    with pytest.raises(InvalidInput, match=told):
        train_adapter(str(taught.model), file, name="bad")


def test_too_few_examples_are_refused(taught, tmp_path):
    with pytest.raises(InvalidInput, match="four"):
        train_adapter(str(taught.model), write_examples(tmp_path / "few.jsonl", num=3), name="few")
