"""The run that waits for a GPU: its whole path on the CPU, with a tiny model."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import torch
from rich.console import Console

from agentform.errors import EngineError, InvalidInput
from benchmarks import gpu
from benchmarks.common.harness import RESULTS, Context
from benchmarks.gpu import forms as gpu_forms

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="with a GPU it would run there")


@pytest.fixture
def context() -> Context:
    return Context(name="gpu", data=None, quick=True, console=Console(record=True, width=160))


def results() -> list[Path]:
    return sorted(RESULTS.glob("gpu*"))


def test_the_quick_run_goes_through_every_part_and_writes_nothing(context, monkeypatch):
    written, before = [], results()
    monkeypatch.setattr(Context, "write", lambda self, figures, **_: written.append(dict(figures)))
    gpu.run(context)
    figures = written[-1]
    assert figures["checks"]["said"].startswith("4 passed")
    assert figures["timings"]["bars"][0].startswith(("reached", "missed"))
    rows = figures["forms"]["rows"]
    assert {(row["fields"], row["warm"]) for row in rows} == {(1, False), (1, True), (3, False), (3, True)}
    for row in rows:
        assert row["cached_tokens"] == (39 if row["warm"] else 0)
        ratio = row["median_s"]["sample"] / row["median_s"]["score"]
        assert row["over_score"]["sample"]["median"] == pytest.approx(ratio)
    assert "written, every token sampled" in context.console.export_text()
    assert results() == before


def test_without_a_gpu_it_says_so_and_what_would_go():
    with pytest.raises(InvalidInput, match="sees no CUDA device; --quick runs"):
        gpu.run(Context(name="gpu", data=None, quick=False))


def test_a_part_without_time_says_how_much_was_left(context):
    now = gpu._Run(context=context, device=torch.device("cpu"), ends=time.monotonic() + 60)
    found = gpu._attempt(now, "forms", lambda now: {})
    assert found["skipped"].endswith("s are left; this part needs 120")


def test_a_part_that_fails_leaves_the_others(context, monkeypatch):
    def fail(now):
        raise RuntimeError("the card is gone")

    for name in ("_checks", "_timings"):
        monkeypatch.setattr(gpu, name, fail)
    monkeypatch.setattr(gpu, "_forms", lambda now: {"rows": []})
    with pytest.raises(EngineError, match="checks: RuntimeError: the card is gone\ntimings: RuntimeError"):
        gpu.run(context)


def test_out_of_time_the_cases_that_were_measured_stay(tmp_path, context):
    times = iter([100.0, 100.0])
    figures = gpu_forms.measure(
        tmp_path,
        device=torch.device("cpu"),
        quick=True,
        left_s=lambda: next(times, 0.0),
        console=context.console,
    )
    assert len(figures["rows"]) == 2
    assert figures["note"] == "no time left in round 1 of 1, from (40, True, 1) on"
