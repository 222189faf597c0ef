from __future__ import annotations

import dataclasses
import json
import random
from contextlib import closing

import anyio
import pytest
import torch
from rich.console import Console
from typer.testing import CliRunner

from agentform.cli import cache_trace
from agentform.cli.app import app
from agentform.cli.cache_advise import (
    Workload,
    advise,
    advise_from,
    workload_of_statistics,
    workload_of_statistics_file,
)
from agentform.cli.cache_trace import read_trace, stream_like
from agentform.errors import InvalidInput
from agentform.runtime.cache.prefix_cache import PrefixCache
from agentform.runtime.cache.statistics import CacheStatistics
from agentform.runtime.cache.working_set import WorkingSet
from agentform.runtime.snapshots.plan import BARE_POSITION_BYTES
from tests.support.engines import complete
from tests.support.tiny_hybrids import write_tiny_hybrid
from tests.support.tiny_model import write_tiny_model

ROUND = WorkingSet(distances={9: 90}, first_uses=10)
"""Ten conversations in turn, ten times."""
LONG = 96
"""Tokens of a conversation."""


@pytest.fixture
def console():
    return Console(record=True, width=140)


def load(room, **options):
    """With room for so many conversations of 96 tokens and a snapshot."""
    options = {"token_bytes": 16, "snapshot_bytes": 512, **options}
    each = LONG * options["token_bytes"] + options["snapshot_bytes"]
    return Workload(trace=stream_like(ROUND, LONG), budget_bytes=int(room * each), **options)


def said(console):
    return " ".join(console.export_text().split())


def test_a_working_set_that_fits_needs_nothing(console):
    advise(console, load(12), {"exact": 512, "int8": 128})
    text = said(console)
    assert "100 uses of 10 conversations of 96 tokens; 10 of them come round" in text
    assert "it fits. Nothing to change" in text


def test_where_it_does_not_fit_the_smallest_loss_that_finds_as_much_is_named(console):
    advise(console, load(6.5), {"exact": 512, "int8": 480, "small": 400})
    text = said(console)
    assert "room for all would find; exact, kv_bits=8 would find" in text


def test_where_tokens_take_all_the_room_no_policy_helps(console):
    advise(console, load(1), {"exact": 512, "int8": 500})
    assert "No way to keep conversations finds more" in said(console)


def test_without_a_budget_only_the_curve_is_shown(console):
    advise(console, Workload(trace=stream_like(ROUND, LONG)), {})
    text = said(console)
    assert "room for" in text
    assert "this is all that can be said" in text


def test_where_nobody_comes_back_there_is_nothing_to_serve(console):
    advise(console, Workload(trace=stream_like(WorkingSet(first_uses=7), 10)), {})
    assert "none came back" in said(console)


@pytest.mark.parametrize(
    ("evicted", "words"), [(0, "a larger cache would find no more"), (90, "90 tokens were evicted")]
)
def test_where_nobody_counted_who_came_back_what_is_known_is_said(console, evicted, words):
    statistics = CacheStatistics(requests=4, lookup_tokens=400, hit_tokens=100, evicted_tokens=evicted)
    advise(console, workload_of_statistics(statistics), {})
    assert words in said(console)


def test_a_stream_is_like_the_one_that_was_counted():
    seen = WorkingSet(distances={2: 300, 7: 100, 40: 100}, first_uses=60)
    found = stream_like(seen, 50).working_set
    uses = sum(found.distances.values())
    # Those that come back first were once new, at any distance: a first round stands before the stream.
    for distance, share in ((2, 0.6), (7, 0.2), (40, 0.2)):
        assert found.distances[distance] / uses == pytest.approx(share, abs=0.08)
    assert found.first_uses >= seen.slots_needed


def test_a_trace_is_read_and_compared_for_a_model(tmp_path, console):
    model = tmp_path / "model"
    write_tiny_hybrid(model, "mamba2")
    trace = tmp_path / "trace.jsonl"
    lines = [json.dumps({"conversation": number % 5, "tokens": 100 + number, "time": number}) for number in range(50)]
    trace.write_text("\n".join(lines) + "\n\n", encoding="utf-8")
    read = read_trace(trace)
    assert read.working_set == WorkingSet(distances={4: 45}, first_uses=5)
    assert (read.mean_tokens, read.block_tokens) == (124.5, 1)
    assert read.requests[5].prompt[:100] == read.requests[0].prompt
    advise_from(console, trace=trace, model=str(model), budget_bytes=4 * (124 * BARE_POSITION_BYTES + 9000))
    text = said(console)
    assert "balanced" in text
    assert "kv_bits=8" in text


def test_what_begins_all_is_shared_and_what_gets_shorter_was_written_anew(tmp_path):
    records = [
        {"conversation": "a", "prompt_tokens": 30, "completion_tokens": 5, "shared_tokens": 10},
        {"conversation": "b", "prompt_tokens": 40, "completion_tokens": 0, "shared_tokens": 10},
        {"conversation": "a", "prompt_tokens": 50, "completion_tokens": 1, "shared_tokens": 10},
        {"conversation": "a", "prompt_tokens": 20, "completion_tokens": 1, "shared_tokens": 10},
    ]
    trace = tmp_path / "trace.jsonl"
    trace.write_text("\n".join(map(json.dumps, records)), encoding="utf-8")
    first, other, again, shorter = read_trace(trace).requests
    assert again.prompt[:35] == first.prompt + first.written
    assert first.prompt[:10] == other.prompt[:10] == shorter.prompt[:10]
    assert not set(first.prompt[10:]) & (set(other.prompt) | set(shorter.prompt))
    assert first.boundaries == (10,)


def test_a_long_trace_is_played_in_larger_blocks(monkeypatch, tmp_path):
    monkeypatch.setattr(cache_trace, "_MOST_NUMBERS", 1000)
    trace = tmp_path / "trace.jsonl"
    trace.write_text("".join(f'{{"conversation": {number % 3}, "tokens": 400}}\n' for number in range(12)))
    read = read_trace(trace)
    assert read.block_tokens == 8
    assert {len(request.prompt) for request in read.requests} == {50}


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "2: not an object"),
        ('{"tokens": 3}', "'conversation'"),
        ('{"conversation": 1}', "'prompt_tokens'"),
        ('{"conversation": 1, "tokens": -3}', "'tokens' is -3"),
        ('{"conversation": 1, "tokens": 3, "time": -1}', "'time' is -1"),
        ('{"conversation": 1, "tokens": 3, "seconds": NaN}', "'seconds' is nan"),
        ('{"conversation": 1, "prompt_tokens": 3, "completion_tokens": true}', "'completion_tokens' is True"),
    ],
)
def test_a_broken_trace_is_told_with_its_line(tmp_path, line, reason):
    trace = tmp_path / "trace.jsonl"
    trace.write_text('{"conversation": 1, "tokens": 3}\n' + line, encoding="utf-8")
    with pytest.raises(InvalidInput, match=reason):
        read_trace(trace)


def test_missing_and_doubled_sources_are_refused(tmp_path, console):
    with pytest.raises(InvalidInput, match="cannot be read"):
        read_trace(tmp_path / "none")
    with pytest.raises(InvalidInput, match="no statistics of an engine"):
        workload_of_statistics_file(tmp_path / "none")
    for both in (None, tmp_path):
        with pytest.raises(InvalidInput, match="one of a server's URL, --trace and --statistics"):
            advise_from(console, trace=both, statistics=both)


ORDERS = {
    "in sequence": [number % 9 for number in range(45)],
    "random": random.Random(1).choices(range(9), k=60),
    "some far more often": random.Random(2).choices(range(12), [1 / (n + 1) for n in range(12)], k=60),
}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("kind", ["llama", "qwen3_next"])
def test_what_is_said_of_a_trace_is_what_the_engine_then_finds(tmp_path, monkeypatch, kind, order):
    """Conversations that begin alike and grow; the cache has room for about half of them."""
    now = [0.0]  # so that nothing depends on how fast this machine is
    monkeypatch.setitem(PrefixCache.__init__.__kwdefaults__, "clock", lambda: now[0])
    from agentform.runtime.torch.engine import TorchEngine

    folder, trace = tmp_path / "model", tmp_path / "trace.jsonl"
    folder.mkdir()
    write_tiny_model(folder) if kind == "llama" else write_tiny_hybrid(folder, kind)
    shared, draw = tuple(range(20, 44)), random.Random(3)
    prompts: dict[int, tuple[int, ...]] = {}
    records: list[dict[str, object]] = []
    counted: list[float] = []

    async def talk(engine):
        for name in ORDERS[order]:
            new = (
                draw.choices(range(20, 90), k=9)
                if name in prompts
                else (100 + name, *draw.choices(range(20, 90), k=39))
            )
            prompt = (*prompts.get(name, shared), *new)
            options = {"conversation": str(name), "boundaries": (len(shared),)}
            now[0] += 1.0
            answer = await complete(engine, prompt, 6, **options)
            prompts[name] = (*prompt, *answer.token_ids)
            records.append(
                {
                    "conversation": name,
                    "prompt_tokens": len(prompt),
                    "completion_tokens": len(answer.token_ids) - (answer.last.finish == "length"),  # computed
                    "shared_tokens": len(shared),
                    "time": now[0],
                    "seconds": 0,
                }
            )
        counted.append(engine.statistics().hit_rate)

    with closing(TorchEngine(folder, dtype=torch.float32, kv_budget_bytes=1 << 22, num_threads=1)) as large:
        plan = large.memory_plan
    room = plan.num_slots * plan.slot_bytes + plan.scratch_bytes
    positions = 5 * (110 + 2 * plan.snapshot_positions)
    budget = room + positions * plan.position_bytes
    with closing(TorchEngine(folder, dtype=torch.float32, kv_budget_bytes=budget, num_threads=1)) as engine:
        plan = engine.memory_plan
        anyio.run(talk, engine)
    trace.write_text("\n".join(map(json.dumps, records)), encoding="utf-8")
    load = Workload(trace=read_trace(trace))
    said = load.rate(
        budget_bytes=plan.num_positions * plan.position_bytes,
        token_bytes=plan.position_bytes,
        snapshot_bytes=plan.snapshot_positions * plan.position_bytes,
    )
    assert said == pytest.approx(counted[0], abs=0.02)
    assert 0.05 < said < 0.9


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
    assert workload_of_statistics(CacheStatistics()).trace.requests == ()
