"""Which layers a model gets when its folder is loaded."""

from __future__ import annotations

import pytest
import torch
from transformers import AutoModelForCausalLM

from agentform.runtime.models.gguf import convert_gguf
from agentform.runtime.models.int4_file import FOUR_BIT_FILE, FourBitFile
from agentform.runtime.models.manifest import write_manifest
from agentform.runtime.scheduling.segment import Segment
from agentform.runtime.torch import loaded_model
from agentform.runtime.torch.cpu import select as products
from agentform.runtime.torch.cpu.int4 import FourBitLinear, can_multiply_four_bit, dequantised
from agentform.runtime.torch.forward.runner import ModelRunner
from agentform.runtime.torch.loaded_model import load
from tests.support.tiny_gguf import write_four_bit_gguf

needs_operator = pytest.mark.skipif(not can_multiply_four_bit(), reason="this build of torch has no 4-bit product")
CPU = torch.device("cpu")
IDS = tuple(range(5, 25))


@pytest.fixture
def folder(tmp_path):
    """A converted folder as it lies in the cache."""
    write_four_bit_gguf(tmp_path / "tiny.gguf")
    convert_gguf(tmp_path / "tiny.gguf", tmp_path)
    write_manifest(tmp_path, model="tiny", source_sha256="")
    return tmp_path


@pytest.fixture
def old_folder(folder):
    """The same, converted before 4-bit weights were kept."""
    (folder / FOUR_BIT_FILE).unlink()
    write_manifest(folder, model="tiny", source_sha256="")
    return folder


def loaded(folder, **options):
    return load(folder, name="tiny", dtype=torch.bfloat16, device=CPU, **options)


def num_four_bit(model):
    return sum(isinstance(module, FourBitLinear) for module in model.modules())


def logits(model):
    """Of every position: the first twelve at once, the rest one by one."""
    runner = ModelRunner(model, kv_budget_bytes=1 << 20)
    steps = [IDS[:12], *([token] for token in IDS[12:])]
    rows, before = [], 0
    for ids in steps:
        stop = before + len(ids)
        segment = Segment(token_ids=tuple(ids), num_before=before, runs=((0, stop),), rows=tuple(range(len(ids))))
        rows.append(runner.compute([segment])[0].float())
        before = stop
    return torch.cat(rows)


def test_conversion_keeps_the_codes_of_every_projection(folder):
    file = FourBitFile(folder / FOUR_BIT_FILE)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16)
    names = [name for name, module in model.model.layers.named_modules() if isinstance(module, torch.nn.Linear)]
    assert len(names) == 7
    for name in names:
        weight = model.model.layers.get_submodule(name).weight
        assert torch.equal(dequantised(file.read(f"model.layers.{name}")).bfloat16(), weight)


@needs_operator
@pytest.mark.parametrize("weights", ["both", "four_bit", "wide"])
def test_every_way_computes_the_model(folder, weights):
    exact = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    with torch.no_grad():
        expected = exact(torch.tensor([IDS])).logits[0]
    parts = loaded(folder, weights=weights)
    assert num_four_bit(parts.model) == (0 if weights == "wide" else 4)
    assert (logits(parts.model) - expected).abs().mean() < 0.02 * expected.abs().mean()


@needs_operator
def test_the_digest_tells_the_ways_apart(folder):
    assert len({loaded(folder, weights=weights).digest for weights in ("both", "four_bit", "wide")}) == 3


@needs_operator
def test_a_folder_from_before_gets_the_file_once_and_stays_whole(old_folder, monkeypatch):
    manifest = (old_folder / "manifest.json").read_bytes()
    assert num_four_bit(loaded(old_folder).model) == 4
    assert (old_folder / "manifest.json").read_bytes() == manifest
    monkeypatch.setattr(products, "add_four_bit", lambda *_: pytest.fail("converted again"))
    assert num_four_bit(loaded(old_folder).model) == 4


def test_a_folder_from_before_without_its_source_stays_wide(old_folder):
    (old_folder / "tiny.gguf").unlink()
    assert num_four_bit(loaded(old_folder).model) == 0


@needs_operator
def test_a_folder_that_cannot_be_written_stays_wide_and_says_so(old_folder, monkeypatch, caplog):
    def refuse(*_):
        raise PermissionError("read-only")

    monkeypatch.setattr(products, "add_four_bit", refuse)
    parts = loaded(old_folder)
    assert num_four_bit(parts.model) == 0
    assert parts.digest == loaded(old_folder, weights="wide").digest
    assert "read-only" in caplog.text


@needs_operator
def test_a_damaged_file_is_not_used_and_named(folder, caplog):
    path = folder / FOUR_BIT_FILE
    path.write_bytes(path.read_bytes()[:-100])
    assert num_four_bit(loaded(folder).model) == 0
    assert FOUR_BIT_FILE in caplog.text


def test_without_the_operators_the_model_stays_wide(folder, monkeypatch):
    monkeypatch.setattr(products, "can_multiply_four_bit", lambda: False)
    assert num_four_bit(loaded(folder).model) == 0


def test_float32_that_is_asked_for_is_computed_with_wide_weights(folder):
    parts = load(folder, name="tiny", dtype=torch.float32, device=CPU)
    assert num_four_bit(parts.model) == 0


@needs_operator
@pytest.mark.parametrize("weights", ["both", "four_bit"])
def test_without_bfloat16_arithmetic_few_tokens_are_multiplied_with_four_bits(folder, monkeypatch, weights):
    monkeypatch.setattr(loaded_model, "default_dtype", lambda device: torch.float32)
    parts = load(folder, name="tiny", dtype=None, device=CPU, weights=weights)
    assert num_four_bit(parts.model) == 4
    assert {weight.dtype for weight in parts.model.parameters()} == {torch.float32}
    exact = load(folder, name="tiny", dtype=torch.float32, device=CPU)
    expected = logits(exact.model)
    found = logits(parts.model)
    assert (found - expected).abs().mean() < 0.02 * expected.abs().mean()
    assert torch.equal(found[:12], expected[:12]) == (weights == "both")
