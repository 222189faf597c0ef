"""Two who share an engine cannot tell from its cache what the other has said, wherever it is kept."""

from __future__ import annotations

import pytest

from agentform.runtime.engine import Branch, GenerateRequest, ScoreRequest
from agentform.runtime.scoped import ScopedEngine

PROMPT = tuple(range(5, 105))


async def ask(engine, salt, prompt=PROMPT):
    branch = Branch(path=(), candidates=(1, 2, 3))
    return await engine.score(ScoreRequest(prompt_ids=prompt, branches=(branch,), cache_salt=salt))


async def generated(engine, salt):
    request = GenerateRequest(prompt_ids=PROMPT, max_tokens=8, cache_salt=salt)
    return [chunk async for chunk in engine.generate(request)]


@pytest.mark.anyio
async def test_what_one_salt_computed_another_computes_again_and_both_get_the_same(engine):
    cold = await ask(engine, "")
    for salt in ("a", "b"):
        first, second = await ask(engine, salt), await ask(engine, salt)
        assert (first.usage.cached_tokens, first.usage.computed_tokens) == (0, len(PROMPT))
        assert second.usage.cached_tokens >= len(PROMPT) - 1
        assert first.logprobs == cold.logprobs
    engine.integrity()


@pytest.mark.anyio
async def test_a_guess_of_anothers_prompt_is_as_good_as_any_other_guess(engine):
    await ask(engine, "a")
    for length in (1, 50, 99):
        guess = (*PROMPT[:length], *(7,) * 50)
        usage = (await ask(engine, f"b{length}", guess)).usage
        assert usage.computed_tokens == len(guess)
        assert usage.cached_tokens == 0


@pytest.mark.anyio
async def test_completions_are_the_same_under_every_salt(engine):
    plain, salted = await generated(engine, ""), await generated(engine, "a")
    assert [chunk.token_ids for chunk in plain] == [chunk.token_ids for chunk in salted]
    assert salted[-1].usage.cached_tokens == 0


@pytest.mark.anyio
async def test_a_salt_finds_its_own_on_disk_after_a_restart_and_no_other_does(make_engine, tmp_path):
    engine = make_engine(cache_dir=tmp_path)
    await generated(engine, "a")
    await engine.aclose()
    found = {}
    for salt in ("b", "", "a"):
        engine = make_engine(cache_dir=tmp_path)
        found[salt] = (await ask(engine, salt)).usage.cached_tokens
        await engine.aclose()
    assert found["a"] > 32
    assert found["b"] == found[""] == 0


@pytest.mark.anyio
async def test_a_scoped_engine_salts_names_and_digests_all_that_it_hands_on(engine):
    one, other = ScopedEngine(engine, "one"), ScopedEngine(engine, "other")
    sharing = ScopedEngine(engine, "third", share_cache=True)
    await ask(one, "")
    assert (await ask(other, "")).usage.cached_tokens == 0
    assert (await ask(one, "")).usage.cached_tokens > 0
    await ask(sharing, "")
    assert (await ask(engine, "")).usage.cached_tokens > 0
    assert len({each.info.digest for each in (engine, one, other)}) == 3
    assert sharing.info == engine.info
