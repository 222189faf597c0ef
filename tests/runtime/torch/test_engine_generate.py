from __future__ import annotations

import anyio
import pytest

from agentform.errors import CacheBudgetExceeded
from agentform.runtime.engine import Engine, Sampling
from tests.support.engines import complete, settled
from tests.support.tiny_model import CONTEXT_TOKENS, EOS_IDS, greedy

pytestmark = pytest.mark.anyio
PROMPT = tuple(range(20, 60))


def prompts_that_do_not_end(tiny, num, length):
    """Prompts whose greedy completion of 24 tokens meets no eos."""
    found = []
    for seed in range(100):
        prompt = tuple((seed * 31 + 7 * i * i) % 250 + 3 for i in range(length))
        if len(greedy(tiny.reference, prompt, 24)) == 24:
            found.append(prompt)
        if len(found) == num:
            return found
    raise AssertionError("the tiny model ends everything")


async def test_greedy_is_what_transformers_gives(engine, tiny):
    for prompt in prompts_that_do_not_end(tiny, 4, 30):
        answer = await complete(engine, prompt, 24)
        assert answer.token_ids == greedy(tiny.reference, prompt, 24)
        # Only an incomplete character at the very end may be missing from the text.
        assert engine.tokenizer.decode(answer.token_ids).removesuffix("\ufffd") == answer.text.removesuffix("\ufffd")
        assert answer.last.finish == "length"
        assert answer.usage.completion_tokens == 24


async def test_prefill_in_chunks_changes_nothing(make_engine, tiny):
    (prompt,) = prompts_that_do_not_end(tiny, 1, 150)
    answer = await complete(make_engine(max_batch_tokens=7), prompt, 10)
    assert answer.token_ids == greedy(tiny.reference, prompt, 10)


async def test_two_at_once_equal_one_after_the_other(make_engine, tiny):
    prompts = prompts_that_do_not_end(tiny, 5, 33)
    engine = make_engine(max_batch_tokens=16)
    answers = {}

    async def run(prompt):
        answers[prompt] = (await complete(engine, prompt, 12)).token_ids

    async with anyio.create_task_group() as group:
        for prompt in prompts:
            group.start_soon(run, prompt)
    assert answers == {prompt: greedy(tiny.reference, prompt, 12) for prompt in prompts}
    await settled(engine)


async def test_decodes_of_several_requests_share_steps(make_engine, gate, tiny):
    engine = make_engine()
    async with anyio.create_task_group() as group:
        for prompt in prompts_that_do_not_end(tiny, 3, 9):
            group.start_soon(complete, engine, prompt, 10)
    assert gate.steps.count(3) >= 5


async def test_eos_ends_and_is_in_neither_text_nor_ids(engine, tiny, monkeypatch):
    (prompt,) = prompts_that_do_not_end(tiny, 1, 30)
    free = await complete(engine, prompt, 8)
    monkeypatch.setitem(vars(engine.tokenizer), "eos_ids", frozenset({free.token_ids[4]}))
    first = free.token_ids.index(free.token_ids[4])
    ended = await complete(engine, prompt, 8)
    assert ended.last.finish == "eos"
    assert ended.token_ids == free.token_ids[:first]
    assert ended.usage.completion_tokens == first + 1


async def test_usage_says_what_was_cached_and_computed(engine):
    cold = await complete(engine, PROMPT, 5)
    warm = await complete(engine, PROMPT, 5)
    assert (cold.usage.prompt_tokens, cold.usage.cached_tokens, cold.usage.miss) == (40, 0, "cold")
    assert cold.usage.computed_tokens == 40 + cold.usage.completion_tokens - 1
    assert (warm.usage.cached_tokens, warm.usage.miss) == (39, None)
    assert warm.usage.computed_tokens == warm.usage.completion_tokens
    assert engine.statistics().computed_tokens == cold.usage.computed_tokens + warm.usage.computed_tokens


async def test_completion_is_cached_for_the_next_turn(engine, tiny):
    (prompt,) = prompts_that_do_not_end(tiny, 1, 30)
    first = await complete(engine, prompt, 8)
    then = await complete(engine, (*prompt, *first.token_ids, 5, 6), 2)
    # The last sampled token was never computed.
    assert then.usage.cached_tokens == 30 + 8 - 1
    assert then.usage.miss == "new after token 37"


async def test_max_tokens_zero_only_warms_the_cache(engine):
    warmed = await complete(engine, PROMPT, 0)
    assert (warmed.last.finish, warmed.token_ids, warmed.usage.completion_tokens) == ("length", (), 0)
    assert (await complete(engine, PROMPT, 1)).usage.cached_tokens == 39


async def test_completion_ends_where_the_context_does(engine, tiny):
    (prompt,) = prompts_that_do_not_end(tiny, 1, CONTEXT_TOKENS - 24)
    answer = await complete(engine, prompt, 100)
    assert answer.last.finish == "length"
    assert len(answer.token_ids) == 24


async def test_stop_string_split_over_tokens(engine, tiny):
    (prompt,) = prompts_that_do_not_end(tiny, 1, 30)
    free = await complete(engine, prompt, 20)
    text = free.text
    at = next(i for i in range(4, len(text) - 3) if text.find(text[i : i + 3]) == i and "\ufffd" not in text[i : i + 3])
    stop = text[at : at + 3]
    ended = await complete(engine, prompt, 20, stop=("never this", stop))
    assert (ended.last.finish, ended.last.stop) == ("stop", stop)
    assert ended.text == text[:at]
    assert ended.token_ids == free.token_ids[: len(ended.token_ids)]
    await settled(engine)


async def test_sampling_is_repeatable_and_seeded(engine):
    def sampled(seed, **more):
        return complete(engine, PROMPT, 12, sampling=Sampling(temperature=1.5, seed=seed, **more))

    first = await sampled(1)
    assert (await sampled(1)).token_ids == first.token_ids
    others = [(await sampled(seed)).token_ids for seed in range(2, 6)]
    assert any(other != first.token_ids for other in others)


async def test_tiny_top_p_is_greedy(engine):
    narrow = await complete(engine, PROMPT, 12, sampling=Sampling(temperature=1.0, top_p=1e-6, seed=3))
    assert narrow.token_ids == (await complete(engine, PROMPT, 12)).token_ids


async def test_a_request_larger_than_the_budget_is_refused_with_numbers(make_engine):
    engine = make_engine(positions=50)
    with pytest.raises(CacheBudgetExceeded, match=r"60 cached tokens.* holds 50"):
        await complete(engine, PROMPT, 20)
    assert (await complete(engine, PROMPT, 10)).last.finish in ("length", "eos")


def test_budget_too_small_for_two_tokens_is_refused_at_start(make_engine):
    with pytest.raises(CacheBudgetExceeded, match="bytes"):
        make_engine(positions=1)


def test_engine_satisfies_the_protocol(engine):
    assert isinstance(engine, Engine)
    assert engine.info.context_tokens == CONTEXT_TOKENS
    assert engine.tokenizer.eos_ids == set(EOS_IDS)
    assert len(engine.info.digest) == 64
