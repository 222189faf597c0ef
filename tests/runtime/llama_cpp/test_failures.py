"""What fails inside llama.cpp fails one request: sequences and cells are afterwards as the cache thinks."""

from __future__ import annotations

import random
from contextlib import closing
from dataclasses import replace

import pytest

from agentform.errors import EngineError
from agentform.runtime.cache.tiers.entry_file import SUFFIX, read_entry, write_entry
from agentform.runtime.llama_cpp.context import LlamaContext
from agentform.runtime.llama_cpp.engine import LlamaCppEngine
from tests.support.engines import complete, settled
from tests.support.gguf_zoo import KINDS, write_tiny_gguf

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module", params=KINDS)
def gguf(request, tmp_path_factory):
    return write_tiny_gguf(request.param, tmp_path_factory.mktemp("gguf") / f"{request.param}.gguf")


def ids(num, seed):
    return tuple(random.Random(seed).choices(range(3, 250), k=num))


@pytest.fixture
def engine(gguf):
    engine = LlamaCppEngine(gguf, kv_budget_bytes=4 << 20, num_threads=1)
    yield engine
    engine.close()


async def test_a_batch_that_fails_in_its_middle_leaves_nothing_behind(engine, monkeypatch):
    known, prompt = ids(30, 3), (*ids(30, 3), *ids(40, 4))
    whole, failures = LlamaContext.decode, iter([True])

    def halfway(context, tokens):
        if next(failures, False):
            whole(context, tokens[: len(tokens) // 2])
            raise EngineError("llama.cpp could not compute the rest")
        return whole(context, tokens)

    await complete(engine, known, 2)
    monkeypatch.setattr(LlamaContext, "decode", halfway)
    with pytest.raises(EngineError, match="the rest"):
        await complete(engine, prompt, 3)
    again = await complete(engine, prompt, 3)
    assert again.usage.completion_tokens == 3
    await settled(engine)
    engine.integrity()


def broken(data):
    return data[:30] + bytes(max(0, len(data) - 30))


HARMS = {
    "no cells": lambda entry: replace(entry, kv=b""),
    "fewer cells": lambda entry: replace(entry, kv=entry.kv[:40]),
    "other cells": lambda entry: replace(entry, kv=broken(entry.kv)),
    "half a state": lambda entry: replace(entry, snapshot=entry.snapshot[: len(entry.snapshot) // 2]),
    "another state": lambda entry: replace(entry, snapshot=b"\xff" * len(entry.snapshot)),
}


@pytest.mark.parametrize("harm", HARMS)
async def test_an_entry_on_disk_that_llama_cpp_does_not_take_is_computed_and_dropped(gguf, tmp_path, harm):
    prompt = ids(100, 6)
    with closing(LlamaCppEngine(gguf, kv_budget_bytes=4 << 20, num_threads=1, cache_dir=tmp_path)) as before:
        await complete(before, prompt, 4, conversation="a")
    (place,) = tmp_path.glob(f"*{SUFFIX}")
    entry = read_entry(place)
    harmed = HARMS[harm](entry)
    if harmed == entry:
        pytest.skip("a model without recurrent layers")
    write_entry(tmp_path, harmed)
    with closing(LlamaCppEngine(gguf, kv_budget_bytes=4 << 20, num_threads=1, cache_dir=tmp_path)) as after:
        answer = await complete(after, (*prompt, 7), 4)
        assert answer.usage.cached_tokens == 0
        assert not place.exists()
        await settled(after)
        after.integrity()


async def test_a_block_comes_back_beside_the_beginning_that_is_held_already(gguf):
    """It is restored whole: for as long as that takes, its beginning has cells twice."""
    with closing(LlamaCppEngine(gguf, kv_budget_bytes=4 << 20, num_threads=1)) as roomy:
        plan = roomy.memory_plan
    least = 512 * plan.position_bytes * (1 + plan.is_stateful) + plan.num_states * plan.state_bytes
    common = ids(100, 5)
    engine = LlamaCppEngine(gguf, kv_budget_bytes=least, num_threads=1, host_budget_bytes=64 << 20)
    with closing(engine):
        for seed in [*range(10), *range(10)]:
            prompt = (*common, *ids(120, 200 + seed))
            await complete(engine, prompt, 2, conversation=str(seed), boundaries=(100,))
        assert engine.statistics().tiers["host"].hits > 0
        await settled(engine)
        engine.integrity()
