from __future__ import annotations

from collections.abc import AsyncGenerator

import anyio
import pytest
import torch

from agentform.errors import ContextOverflow, InvalidRequest
from agentform.runtime.engine import Chunk, Engine, GenerateRequest, Sampling
from tests.seam.conftest import CONTEXT_TOKENS, SEEN, fresh_prompt
from tests.support.engines import complete
from tests.support.tiny_model import EOS_IDS
from tests.support.waiting import PATIENCE_S

pytestmark = pytest.mark.anyio


def assert_greedy(reference, prompt, token_ids):
    """Each token is the most probable one, as far as bfloat16 can tell."""
    with torch.no_grad():
        rows = reference(torch.tensor([(*prompt, *token_ids)])).logits[0, len(prompt) - 1 :].float().log_softmax(dim=-1)
    for row, token in zip(rows[: len(token_ids)], token_ids, strict=True):
        assert row[token] > row.max() - 0.05


async def test_greedy_follows_transformers(engine, seam_model):
    for prompt in (fresh_prompt(), fresh_prompt(5)):
        answer = await complete(engine, prompt, 16)
        assert_greedy(seam_model.reference, prompt, answer.token_ids)
        assert (answer.last.finish, len(answer.token_ids)) == ("length", 16)
        # Only an incomplete character at the very end may be missing from the text.
        assert engine.tokenizer.decode(answer.token_ids).rstrip("\ufffd") == answer.text.rstrip("\ufffd")


async def test_a_warm_completion_is_the_cold_one(engine, seam_model):
    prompt = fresh_prompt(90)
    cold = await complete(engine, prompt, 8)
    warm = await complete(engine, prompt, 8)
    assert cold.usage.cached_tokens <= SEEN
    assert warm.usage.cached_tokens == 89
    assert_greedy(seam_model.reference, prompt, warm.token_ids)


async def test_usage_says_what_was_computed_and_sampled(engine):
    prompt = fresh_prompt()
    cold = (await complete(engine, prompt, 5)).usage
    warm = (await complete(engine, prompt, 5)).usage
    assert cold.prompt_tokens == 40
    assert cold.computed_tokens == 40 - cold.cached_tokens + cold.completion_tokens - 1
    assert warm.computed_tokens == warm.completion_tokens


async def test_a_completion_is_cached_for_the_next_turn(engine):
    prompt = fresh_prompt()
    first = await complete(engine, prompt, 8)
    then = await complete(engine, (*prompt, *first.token_ids, 5, 6), 2)
    assert then.usage.cached_tokens >= 40 + len(first.token_ids) - 1


async def test_max_tokens_zero_only_warms_the_cache(engine):
    prompt = fresh_prompt()
    warmed = await complete(engine, prompt, 0)
    assert (warmed.last.finish, warmed.token_ids, warmed.usage.completion_tokens) == ("length", (), 0)
    assert (await complete(engine, prompt, 1)).usage.cached_tokens == 39


async def test_tokens_come_one_by_one(engine):
    request = GenerateRequest(prompt_ids=fresh_prompt(), max_tokens=200)
    chunks = [chunk async for chunk in engine.generate(request)]
    assert chunks[-1].usage.completion_tokens == 200
    assert sum(len(chunk.token_ids) for chunk in chunks) == 200
    assert len(chunks) > 50  # what comes while nobody looks is one chunk


async def test_eos_ends_and_is_in_neither_text_nor_ids(engine, monkeypatch):
    prompt = fresh_prompt()
    free = await complete(engine, prompt, 8)
    end = free.token_ids[4]
    monkeypatch.setitem(vars(engine.tokenizer), "eos_ids", frozenset({end}))
    ended = await complete(engine, prompt, 8)
    first = free.token_ids.index(end)
    assert (ended.last.finish, ended.token_ids) == ("eos", free.token_ids[:first])
    assert ended.usage.completion_tokens == first + 1


async def test_a_stop_string_ends_and_cuts_the_text(served):
    engine = served.engine
    prompt, stop, before = await text_to_stop_at(engine)
    ended = await complete(engine, prompt, 20, stop=("never this", stop))
    assert (ended.last.finish, ended.last.stop, ended.text) == ("stop", stop, before)
    await served.settled()


async def text_to_stop_at(engine):
    """A prompt, two characters of its completion that first come after its beginning, and the text before them."""
    for _ in range(20):
        prompt = fresh_prompt()
        text = (await complete(engine, prompt, 20)).text
        for at in range(1, len(text) - 2):
            stop = text[at : at + 2]
            if text.find(stop) == at and "\ufffd" not in stop:
                return prompt, stop, text[:at]
    raise AssertionError("the tiny model says the same all the time")


async def test_tiny_top_p_is_greedy(engine, seam_model):
    prompt = fresh_prompt()
    narrow = await complete(engine, prompt, 12, sampling=Sampling(temperature=1.0, top_p=1e-6, seed=3))
    assert_greedy(seam_model.reference, prompt, narrow.token_ids)


async def test_sampling_samples(engine):
    answers = {
        (await complete(engine, fresh_prompt(), 12, sampling=Sampling(temperature=2.0, seed=seed))).token_ids
        for seed in range(6)
    }
    assert len(answers) > 1


async def test_completions_at_once(engine, seam_model):
    answers = {}

    async def run(prompt):
        answers[prompt] = (await complete(engine, prompt, 12)).token_ids

    async with anyio.create_task_group() as group:
        for _ in range(10):
            group.start_soon(run, fresh_prompt())
    assert len(answers) == 10
    for prompt, token_ids in answers.items():
        assert_greedy(seam_model.reference, prompt, token_ids)


async def test_a_completion_ends_where_the_context_does(engine):
    answer = await complete(engine, fresh_prompt(CONTEXT_TOKENS - 20), 100)
    assert answer.last.finish == "length"
    assert 18 <= len(answer.token_ids) <= 20  # SGLang leaves the last places of a context empty


async def seen_at_work(served) -> AsyncGenerator[Chunk, None]:
    """A completion that its engine says is at work; another process may tell of one only when it has ended."""
    with anyio.fail_after(PATIENCE_S):
        while True:
            stream = served.engine.generate(GenerateRequest(prompt_ids=fresh_prompt(), max_tokens=400))
            async for _ in stream:
                if await served.num_running():
                    return stream
            await stream.aclose()


async def test_closing_the_generator_frees_the_request(served):
    stream = await seen_at_work(served)
    await stream.aclose()
    await served.settled()


async def test_cancelling_frees_the_request(served):
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as group:
            for _ in range(12):  # some wait for others
                group.start_soon(complete, served.engine, fresh_prompt(), 400)
            await anyio.sleep(0.05)
            scope.cancel()
    await served.settled()
    assert (await complete(served.engine, fresh_prompt(), 2)).last.finish is not None


async def test_a_deadline_ends_a_completion_with_what_was_made(served, seam_model):
    stream = served.engine.generate(GenerateRequest(prompt_ids=fresh_prompt(), max_tokens=460, deadline_s=0.3))
    chunks = [chunk async for chunk in stream]
    last = chunks[-1]
    ids = tuple(token for chunk in chunks for token in chunk.token_ids)
    assert last.finish in ("deadline", "length")
    assert last.usage.completion_tokens >= len(ids)
    await served.settled()


async def test_a_deadline_of_nothing_ends_at_once(served):
    answer = await complete(served.engine, fresh_prompt(), 20, deadline_s=0.0)
    assert (answer.last.finish, answer.token_ids, answer.usage.completion_tokens) == ("deadline", (), 0)
    assert answer.usage.computed_tokens in (0, None)
    await served.settled()


@pytest.mark.parametrize(
    ("prompt", "max_tokens", "options", "error"),
    [
        ((), 4, {}, InvalidRequest),
        ((1, -1), 4, {}, InvalidRequest),
        ((1, 10**6), 4, {}, InvalidRequest),
        ((5,), -1, {}, InvalidRequest),
        ((5,), 4, {"sampling": Sampling(temperature=-1)}, InvalidRequest),
        ((5,), 4, {"sampling": Sampling(top_p=0)}, InvalidRequest),
        ((5,) * CONTEXT_TOKENS, 4, {}, ContextOverflow),
    ],
)
async def test_malformed_requests_are_refused(engine, prompt, max_tokens, options, error):
    with pytest.raises(error):
        await complete(engine, prompt, max_tokens, **options)


async def test_what_is_told_of_the_model(engine):
    assert isinstance(engine, Engine)
    assert engine.info.context_tokens == CONTEXT_TOKENS
    assert engine.tokenizer.eos_ids == set(EOS_IDS)
    engine.expect_return("somebody", after="something")
    before = engine.statistics()
    await complete(engine, fresh_prompt(), 2, conversation="somebody")
    after = engine.statistics()
    assert after.requests == before.requests + 1
    assert after.lookup_tokens == before.lookup_tokens + 40
    assert after.conversations["somebody"].lookup_tokens >= 40
    # A router does not say what the servers behind it hold.
    assert after.capacity_tokens > 0 or getattr(engine, "is_router", False)


def test_event_loops_one_after_the_other(engine):
    prompt = fresh_prompt()
    answers = {anyio.run(complete, engine, prompt, 6, backend=backend).text for backend in ("asyncio", "trio")}
    assert len(answers) == 1
