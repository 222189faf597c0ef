"""Engines that keep keys and values in 8 bits: what the cache gives is what computing gives, in half the memory."""

from __future__ import annotations

import functools
import random
from contextlib import closing
from importlib.util import find_spec

import anyio
import pytest
import torch

from agentform.errors import EngineError, InvalidRequest
from agentform.runtime.engine import Branch, ScoreRequest
from agentform.runtime.torch.engine import TorchEngine
from tests.support.engines import complete, settled
from tests.support.tiny_hybrids import write_tiny_hybrid
from tests.support.tiny_model import write_tiny_model

HAS_LLAMA_CPP = find_spec("xllamacpp") is not None
needs_llama_cpp = pytest.mark.skipif(not HAS_LLAMA_CPP, reason="without llama.cpp's library")
WIDE = {"hidden_size": 64, "num_attention_heads": 2, "num_key_value_heads": 1, "initializer_range": 0.15}
"""llama.cpp keeps numbers in groups of 32, so heads must be as wide."""
BRANCHES = tuple(Branch(path=path, candidates=(3, 50, 99)) for path in ((), (9,), (9, 30), (200, 3, 3)))
NEAR = 0.15
"""How far logprobs of a tiny model of large random weights may be from those with KV as it was computed.

llama.cpp rounds queries too."""


def llama_cpp(folder, **options):
    from agentform.runtime.llama_cpp.engine import LlamaCppEngine
    from tests.support.gguf_of_model import write_gguf_of

    file = folder / "tiny.gguf"
    if not file.exists():
        write_gguf_of(write_tiny_model(folder, **WIDE), file)
    return LlamaCppEngine(file, kv_budget_bytes=2 << 20, num_threads=1, **options)


def torch_engine(folder, *, hybrid=False, **options):
    if not (folder / "config.json").exists():
        write_tiny_hybrid(folder, "qwen3_next") if hybrid else write_tiny_model(folder)
    return TorchEngine(folder, dtype=torch.float32, kv_budget_bytes=2 << 20, num_threads=1, **options)


KINDS = [
    pytest.param(torch_engine, id="torch"),
    pytest.param(functools.partial(torch_engine, hybrid=True), id="torch-hybrid"),
    pytest.param(llama_cpp, id="llama_cpp", marks=needs_llama_cpp),
]


async def scored(engine, prompt):
    result = await engine.score(ScoreRequest(prompt_ids=prompt, branches=BRANCHES))
    return [p for branch in result.logprobs for p in branch]


@pytest.mark.parametrize("make", KINDS)
def test_a_conversation_goes_on_as_if_it_was_computed_anew(tmp_path, make):
    async def play():
        prompt = tuple(random.Random(4).choices(range(20, 90), k=70))
        for turn in range(3):
            warm_scores, cold_scores, exact_scores = [await scored(each, prompt) for each in (warm, cold, exact)]
            assert warm_scores == pytest.approx(cold_scores, abs=0.02)
            assert warm_scores == pytest.approx(exact_scores, abs=NEAR)
            answers = [await complete(each, prompt, 8) for each in (warm, cold)]
            assert answers[0].token_ids == answers[1].token_ids
            prompt = (*prompt, *answers[0].token_ids, *range(30 + turn, 40))
        await settled(warm)

    with (
        closing(make(tmp_path, kv_bits=8)) as warm,
        closing(make(tmp_path, kv_bits=8, reuse_prefixes=False)) as cold,
        closing(make(tmp_path, reuse_prefixes=False)) as exact,
    ):
        anyio.run(play)
        assert warm.statistics().hit_tokens > 0
        assert warm.memory_plan.position_bytes < 0.6 * exact.memory_plan.position_bytes


@pytest.mark.parametrize("make", KINDS)
def test_what_one_engine_left_on_disk_another_goes_on_from_if_it_keeps_8_bits_too(tmp_path, make):
    model, kept = tmp_path / "model", tmp_path / "kept"
    model.mkdir()
    prompt = tuple(random.Random(5).choices(range(20, 90), k=60))

    async def cached(kv_bits):
        with closing(make(model, kv_bits=kv_bits, cache_dir=kept)) as engine:
            answer = await complete(engine, prompt, 6, conversation="a", boundaries=(len(prompt),))
            await settled(engine)
            return answer

    first, other, again = anyio.run(cached, 8), anyio.run(cached, None), anyio.run(cached, 8)
    assert first.usage.cached_tokens == other.usage.cached_tokens == 0
    assert again.usage.cached_tokens > 0
    assert again.token_ids == first.token_ids


@needs_llama_cpp
def test_heads_that_llama_cpp_cannot_round_are_refused_by_name(tmp_path):
    from agentform.runtime.llama_cpp.engine import LlamaCppEngine
    from tests.support.gguf_zoo import write_tiny_gguf

    with pytest.raises(EngineError, match=r"does not keep this model's KV in 8 bits; leave it out: .*head"):
        LlamaCppEngine(write_tiny_gguf("attention", tmp_path / "tiny.gguf"), kv_bits=8, num_threads=1)


@pytest.mark.parametrize("bits", [0, 4, 16])
def test_other_bits_are_refused(tmp_path, bits):
    with pytest.raises(InvalidRequest, match=f"kv_bits is {bits}; it is 8, or left out"):
        torch_engine(tmp_path, kv_bits=bits)
