from __future__ import annotations

import dataclasses
import json

import anyio
import pytest
import torch
from rich.console import Console
from typer.testing import CliRunner

from agentform.cli.app import app
from agentform.cli.cache_advise import (
    Workload,
    advise,
    advise_from_files,
    workload_of_statistics,
    workload_of_statistics_file,
    workload_of_trace,
)
from agentform.errors import InvalidInput
from agentform.runtime.cache.statistics import CacheStatistics
from agentform.runtime.cache.working_set import WorkingSet
from agentform.runtime.snapshots.plan import BARE_POSITION_BYTES
from tests.support.engines import complete
from tests.support.tiny_hybrids import write_tiny_hybrid

ROUND = WorkingSet(distances={9: 90}, first_uses=10)
"""Ten conversations in turn, ten times."""


@pytest.fixture
def console():
    return Console(record=True, width=140)


def load(budget_bytes, **options):
    return Workload(working_set=ROUND, mean_tokens=100, budget_bytes=budget_bytes, snapshot_bytes=1000, **options)


def said(console):
    return " ".join(console.export_text().split())


def test_a_working_set_that_fits_needs_no_compression(console):
    advise(console, load(10_000), {"exact": 1000, "int8": 250})
    text = said(console)
    assert "holds 10 conversations and the working set is 10: it fits" in text
    assert "buys nothing" in text


def test_at_the_cliff_the_smallest_loss_that_serves_all_is_named(console):
    advise(console, load(9_999), {"exact": 1000, "int8": 900, "small": 100})
    text = said(console)
    assert "holds 9 of the 10 conversations" in text
    assert "snapshots='int8' would raise hits from 0.0% to 90.0%" in text


def test_where_tokens_take_the_room_no_policy_helps(console):
    advise(console, load(90_000, token_bytes=100), {"exact": 1000, "int8": 250})
    assert "No snapshot policy changes the hit rate" in said(console)


def test_without_a_budget_only_the_curve_is_shown(console):
    advise(console, Workload(working_set=ROUND, mean_tokens=100), {})
    text = said(console)
    assert "90.0%" in text
    assert "this is all that can be said" in text


def test_where_nobody_comes_back_there_is_nothing_to_serve(console):
    advise(console, Workload(working_set=WorkingSet(first_uses=7), mean_tokens=10), {})
    assert "none came back" in said(console)


def test_a_trace_is_read_and_compared_for_a_model(tmp_path, console):
    model = tmp_path / "model"
    write_tiny_hybrid(model, "mamba2")
    trace = tmp_path / "trace.jsonl"
    lines = [json.dumps({"conversation": number % 5, "tokens": 100 + number, "time": number}) for number in range(50)]
    trace.write_text("\n".join(lines) + "\n\n", encoding="utf-8")
    assert workload_of_trace(trace).working_set == WorkingSet(distances={4: 45}, first_uses=5)
    assert workload_of_trace(trace).mean_tokens == 124.5
    advise_from_files(
        console, trace=trace, statistics=None, model=str(model), budget_bytes=4 * (124 * BARE_POSITION_BYTES + 9000)
    )
    text = said(console)
    assert "holds 4 of the 5" in text
    assert "balanced" in text


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "2: not an object"),
        ('{"tokens": 3}', "'conversation'"),
        ('{"conversation": 1, "tokens": -3}', "'tokens' is -3"),
    ],
)
def test_a_broken_trace_is_told_with_its_line(tmp_path, line, reason):
    trace = tmp_path / "trace.jsonl"
    trace.write_text('{"conversation": 1, "tokens": 3}\n' + line, encoding="utf-8")
    with pytest.raises(InvalidInput, match=reason):
        workload_of_trace(trace)


def test_missing_and_doubled_sources_are_refused(tmp_path, console):
    with pytest.raises(InvalidInput, match="cannot be read"):
        workload_of_trace(tmp_path / "none")
    with pytest.raises(InvalidInput, match="no statistics of an engine"):
        workload_of_statistics_file(tmp_path / "none")
    for both in (None, tmp_path):
        with pytest.raises(InvalidInput, match="either --trace or --statistics"):
            advise_from_files(console, trace=both, statistics=both, model=None, budget_bytes=None)


def test_the_command_reads_a_trace(tmp_path):
    trace = tmp_path / "trace.jsonl"
    trace.write_text("".join(f'{{"conversation": {number % 3}, "tokens": 9}}\n' for number in range(12)))
    done = CliRunner().invoke(app, ["cache", "advise", "--trace", str(trace)])
    assert done.exit_code == 0, done.output
    assert "12 uses of 3 conversations" in done.output


def test_an_engines_statistics_say_the_same_live_and_saved(tmp_path):
    from agentform.runtime.torch.engine import TorchEngine

    write_tiny_hybrid(tmp_path, "mamba2")
    engine = TorchEngine(tmp_path, dtype=torch.float32, snapshots="int8", kv_budget_bytes=1 << 22, num_threads=1)

    async def talk():
        for turn in range(3):
            for name in ("a", "b"):
                await complete(engine, tuple(range(20, 40 + turn)), 1, conversation=name)

    anyio.run(talk)
    statistics = engine.statistics()
    engine.close()
    assert statistics.working_set == WorkingSet(distances={1: 4}, first_uses=2)
    path = tmp_path / "statistics.json"
    path.write_text(json.dumps(dataclasses.asdict(statistics)), encoding="utf-8")
    live = workload_of_statistics(statistics)
    assert workload_of_statistics_file(path) == live
    assert live.snapshot_bytes is not None
    assert live.snapshot_bytes >= statistics.snapshot_bytes > 0
    assert workload_of_statistics(CacheStatistics()).mean_tokens == 0
