"""What is evicted from the device stays in the host's memory, comes back whole, and goes to disk from there."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import anyio
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from agentform.runtime.cache.tiers.entry_file import SUFFIX, Entry
from agentform.runtime.cache.tiers.host import HostIndex
from agentform.runtime.torch.engine import TorchEngine
from tests.support.engines import complete, settled
from tests.support.tiny_hybrids import write_tiny_hybrid
from tests.support.tiny_model import greedy, write_tiny_model

FAMILIES = ("llama", "qwen3_next", "mamba2")
TALKS = tuple(tuple(range(first, first + 96)) for first in (10, 106, 202))


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Folder and transformers' model by family."""
    made = {}
    for family in FAMILIES:
        folder = tmp_path_factory.mktemp(family)
        made[family] = folder, write_tiny_model(folder) if family == "llama" else write_tiny_hybrid(folder, family)
    return made


def make(folder, *, host=1 << 22, **options):
    """An engine whose device holds one of the conversations, but not two."""

    def engine(budget):
        return TorchEngine(
            folder,
            dtype=torch.float32,
            kv_budget_bytes=budget,
            num_slots=2,
            max_batch_tokens=32,
            num_threads=1,
            host_budget_bytes=host,
            **options,
        )

    with closing(engine(1 << 22)) as roomy:
        plan = roomy.memory_plan
    positions = 130 + 2 * plan.snapshot_positions
    return engine(plan.num_slots * plan.slot_bytes + plan.scratch_bytes + positions * plan.position_bytes)


@pytest.mark.parametrize("family", FAMILIES)
def test_conversations_that_were_evicted_come_back_from_the_host(written, family):
    folder, reference = written[family]

    async def talk(engine):
        said = {}
        for prompt in TALKS:
            said[prompt] = (*prompt, *(await complete(engine, prompt, 6)).token_ids)
        for prompt in TALKS:
            then = (*said[prompt], 7, 8, 9)
            answer = await complete(engine, then, 4)
            assert answer.token_ids == greedy(reference, then, 4)
            assert answer.usage.cached_tokens >= len(prompt) - 1
            await settled(engine)

    with closing(make(folder)) as engine:
        anyio.run(talk, engine)
        tiers = engine.statistics().tiers
    assert tiers["host"].hits == len(TALKS)
    assert tiers["host"].fetched_tokens >= len(TALKS) * 60
    assert 0 < tiers["host"].used_bytes <= tiers["host"].limit_bytes
    assert bool(tiers["host"].snapshots) == (family != "llama")
    assert 0 < tiers["device"].used_bytes <= tiers["device"].limit_bytes


@pytest.mark.parametrize("family", ["llama", "qwen3_next"])
def test_what_does_not_fit_into_the_host_goes_to_disk(written, tmp_path, family):
    folder, reference = written[family]

    async def talk(engine):
        for prompt in TALKS:
            await complete(engine, prompt, 6)
        for prompt in TALKS:
            answer = await complete(engine, (*prompt, 7, 8, 9), 4)
            assert answer.token_ids == greedy(reference, (*prompt, 7, 8, 9), 4)
            assert answer.usage.cached_tokens >= len(prompt) - 1
            await settled(engine)

    with closing(make(folder, host=1000, cache_dir=tmp_path)) as engine:  # less than one entry
        anyio.run(talk, engine)
        tiers = engine.statistics().tiers
    assert tiers["host"].entries == tiers["host"].used_bytes == 0
    assert tiers["disk"].hits > 0
    assert 0 < tiers["disk"].used_bytes <= sum(each.stat().st_size for each in Path(tmp_path).glob("*" + SUFFIX))


def test_little_is_not_worth_moving(written):
    async def talk(engine):
        for first in range(10, 200, 20):
            await complete(engine, range(first, first + 20), 2)

    with closing(make(written["llama"][0])) as engine:
        anyio.run(talk, engine)
        assert engine.statistics().evicted_tokens > 0
        assert engine.statistics().tiers["host"].entries == 0


ENTRY = st.builds(
    lambda ids, kv: Entry(guard="g", ids=tuple(ids), kv=b"k" * kv * len(ids), snapshot=b""),
    st.lists(st.integers(0, 1), min_size=1, max_size=6),
    st.integers(1, 9),
)


@given(st.lists(ENTRY, max_size=20), st.integers(0, 200))
def test_the_host_keeps_its_limit_and_loses_nothing_without_saying_so(entries, limit):
    index, left = HostIndex(whole=False, limit_bytes=limit), []
    for entry in entries:
        left += index.write(entry)
        index.integrity()
    for entry in entries:
        is_held = index.best(entry.ids, len(entry.ids))[0] == len(entry.ids)
        assert is_held or any(each.ids[: len(entry.ids)] == entry.ids for each in left)


def test_what_was_read_last_stays_longest():
    index = HostIndex(whole=True, limit_bytes=20)
    first, second, third = (Entry(guard="g", ids=(i,), kv=b"k" * 5, snapshot=b"s") for i in range(3))
    assert index.write(first) == index.write(second) == []
    assert index.read(index.best(first.ids, 1)[1] or "") is first
    assert index.write(third) == [second]
    assert index.read("nothing") is None
    index.drop("nothing")
    index.integrity()
