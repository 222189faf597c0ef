"""The benchmark of kernels runs on a CPU too, at small sizes; what it measures there is the reference."""

from __future__ import annotations

import pytest
import torch
from rich.console import Console

from benchmarks import kernels
from benchmarks.common.harness import Context

CPU = torch.device("cpu")


@pytest.mark.skipif(torch.cuda.is_available(), reason="says what it does without a GPU")
def test_without_a_gpu_it_says_so():
    console = Console(record=True, width=120)
    kernels.run(Context(name="kernels", data=None, quick=True, console=console))
    assert "no CUDA device" in console.export_text()


def test_figures_are_ratios_of_what_was_measured():
    for bits in (8, 4):
        figures = kernels.measure_pack(CPU, heads=2, kept=0.5, value_first=True, bits=bits, rounds=2, dim=16)
        assert figures["pack_of_copy"] == pytest.approx(figures["pack_gb_per_s"] / figures["copy_gb_per_s"])
    restore = kernels.measure_restore(CPU, tokens=9, rounds=1, layers=2, heads=2, dim=8)
    assert restore["share"] == pytest.approx(restore["restore_s"] / restore["prefill_of_recurrent_layers_s"])
    step = kernels.measure_step(CPU, branches=3, tokens=2, rounds=1, heads=2, dim=8)
    assert step.keys() == {"branches", "tokens", "step_s", "copy_s"}
    assert kernels.measure_replay(CPU, tokens=3, rounds=1, heads=2, dim=8).keys() == {"tokens", "replay_s", "unpack_s"}
