"""With a model on the meta device no operation of a step gets a tensor of the CPU."""

from __future__ import annotations

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from agentform.runtime.scheduling.segment import Segment
from agentform.runtime.torch.forward import attention
from agentform.runtime.torch.forward.runner import ModelRunner
from agentform.runtime.torch.forward.transformers_adapter import load_model
from tests.support.tiny_hybrids import FAMILIES, write_tiny_hybrid

META = torch.device("meta")
ACROSS_DEVICES = {"aten::copy_", "aten::_to_copy", "aten::index.Tensor", "aten::index_put_"}
"""Copies, and indices, which may be the CPU's everywhere."""


class OneDevice(TorchDispatchMode):
    """Refuses what a GPU would; the meta device itself lets some of it pass. A single number may come from the CPU."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        tensors = [each for each in tree_leaves((args, kwargs)) if isinstance(each, torch.Tensor)]
        devices = {each.device.type for each in tensors if each.dim()}
        assert len(devices) < 2 or func.name() in ACROSS_DEVICES, f"{func.name()} of tensors on {sorted(devices)}"
        return func(*args, **kwargs or {})


@pytest.fixture(autouse=True)
def _attend_as_on_a_gpu(monkeypatch):
    monkeypatch.setattr(attention, "_is_on_gpu", lambda query: True)


def test_tensors_of_two_devices_are_noticed():
    with OneDevice(), pytest.raises(AssertionError, match=r"masked_fill.* of tensors on .*cpu"):
        torch.ones(3, device=META).masked_fill(torch.ones(3, dtype=torch.bool), 0.0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_model_with_attention_alone_steps(tiny, dtype):
    steps(ModelRunner(load_model(tiny.folder, dtype=dtype, device=META), kv_budget_bytes=1 << 22))


@pytest.mark.parametrize("family", FAMILIES)
def test_a_model_with_recurrent_layers_steps(family, tmp_path):
    model = write_tiny_hybrid(tmp_path, family).bfloat16().to(META)
    steps(ModelRunner(model, kv_budget_bytes=1 << 24, num_slots=4))


def steps(runner):
    """Prompts, then completions and a score that starts from a snapshot, then a warm-up from it."""
    is_recurrent = runner.is_recurrent
    kept = ((1000, 1000 + runner.plan.snapshot_positions),) if is_recurrent else ()

    def segment(num, before, runs, rows, slot, **options):
        given = {"slot": slot, **options} if is_recurrent else {k: v for k, v in options.items() if k == "parents"}
        return Segment(token_ids=(1,) * num, num_before=before, runs=runs, rows=rows, **given)

    prompts = [
        segment(20, 0, ((0, 20),), (19,), 0, load=(), saves=((18, kept),)),
        segment(5, 0, ((30, 33), (40, 42)), (4,), 1, load=()),
    ]
    tree = {"load": kept, "parents": (-1, 0, 0, 2, -1, 4)}
    later = [
        segment(1, 20, ((0, 21),), (0,), 0),
        segment(1, 5, ((30, 33), (40, 43)), (0,), 1),
        segment(6, 18, ((0, 18), (50, 56)), (2, 5), 2, **tree),
    ]
    warm_up = [segment(10, 10, ((0, 20),), (9,), 3, load=kept, num_warm=8, settle=(8, kept), num_stored=8)]
    for planned in (prompts, later, warm_up):
        with OneDevice():
            answers = runner.compute(planned)
        assert [len(each) for each in answers] == [len(each.rows) for each in planned]
        assert all(each.device == META for each in answers)
    if is_recurrent:
        with OneDevice():
            runner.save_state(0, kept)
