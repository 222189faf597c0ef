"""What the cache gives is what computing gives, whatever a model's layers keep of what they read."""

from __future__ import annotations

import random
from functools import partial

import anyio
import pytest

from agentform.runtime.engine import Branch, ScoreRequest
from agentform.runtime.llama_cpp.engine import LlamaCppEngine
from tests.support.engines import complete, settled
from tests.support.gguf_zoo import KINDS, write_tiny_gguf

pytestmark = pytest.mark.anyio
BRANCHES = tuple(Branch(path=path, candidates=(3, 50, 99)) for path in ((), (9,), (9, 30), (200, 3, 3), (9, 31, 7)))
ROUNDING = 0.02
"""Keys and values are kept in 16 bits, and how a batch is cut decides in which order they are summed."""


@pytest.fixture(scope="module", params=KINDS)
def kind(request):
    return request.param


@pytest.fixture(scope="module")
def gguf(kind, tmp_path_factory):
    return write_tiny_gguf(kind, tmp_path_factory.mktemp("gguf") / f"{kind}.gguf")


@pytest.fixture(scope="module")
def cold(gguf):
    """Computes everything anew."""
    with opened(gguf, reuse_prefixes=False) as engine:
        yield engine


class opened:
    """An engine that is whole when it is closed."""

    def __init__(self, gguf, **options):
        self.engine = LlamaCppEngine(gguf, **{"kv_budget_bytes": 4 << 20, "num_threads": 1, **options})

    def __enter__(self):
        return self.engine

    def __exit__(self, *error):
        if error[0] is None:
            self.engine.integrity()
        self.engine.close()


def ids(num, seed):
    return tuple(random.Random(seed).choices(range(3, 250), k=num))


async def scored(engine, prompt, **options):
    result = await engine.score(ScoreRequest(prompt_ids=prompt, branches=BRANCHES, **options))
    return result.usage, [p for branch in result.logprobs for p in branch]


async def assert_same(warm, cold, prompt, **options):
    """Scores at a prompt agree; returns what the warm engine had to do."""
    usage, found = await scored(warm, prompt, **options)
    _, expected = await scored(cold, prompt)
    assert max(abs(a - b) for a, b in zip(found, expected, strict=True)) < ROUNDING
    return usage


async def test_a_conversation_that_goes_on(gguf, cold):
    with opened(gguf) as warm:
        prompt = ids(70, 1)
        for turn in range(4):
            usage = await assert_same(warm, cold, prompt, conversation="a", boundaries=(len(prompt) - 5,))
            assert (usage.cached_tokens > 0) == (turn > 0)
            answer = await complete(warm, prompt, 12, conversation="a")
            prompt = (*prompt, *answer.token_ids, *ids(20, turn))
        await settled(warm)


async def test_prompts_that_part(gguf, cold):
    common = ids(60, 2)
    with opened(gguf) as warm:
        for seed in range(6):
            prompt = (*common[: 60 - 9 * (seed % 3)], *ids(15 + seed, seed))
            await assert_same(warm, cold, prompt, boundaries=(33, 42))
        assert warm.statistics().hit_tokens > 60
        await settled(warm)


async def test_branches_that_share_much(gguf, cold):
    """Where each is computed apart, together they are more tokens than a batch takes."""
    trunk = ids(180, 7)
    branches = tuple(Branch(path=(*trunk, last), candidates=(3, 50)) for last in range(5, 13))
    with opened(gguf) as warm:
        together = await warm.score(ScoreRequest(prompt_ids=ids(20, 8), branches=branches))
        await settled(warm)
    for index in (0, 5, 7):
        alone = await cold.score(ScoreRequest(prompt_ids=ids(20, 8), branches=branches[index : index + 1]))
        assert together.logprobs[index] == pytest.approx(alone.logprobs[0], abs=ROUNDING)


async def test_a_branch_longer_than_a_step(gguf, cold):
    request = ScoreRequest(prompt_ids=ids(20, 8), branches=(Branch(path=ids(150, 9), candidates=(3, 50)),))
    with opened(gguf, max_batch_tokens=32) as small:
        found = await small.score(request)
        await settled(small)
    expected = await cold.score(request)
    assert found.logprobs[0] == pytest.approx(expected.logprobs[0], abs=ROUNDING)


async def test_many_at_once(gguf, cold):
    common = ids(50, 3)
    prompts = [(*common, *ids(10, seed)) for seed in range(9)]
    with opened(gguf) as warm:
        async with anyio.create_task_group() as group:
            for prompt in prompts:
                group.start_soon(partial(assert_same, warm, cold, prompt, boundaries=(50,)))
                group.start_soon(complete, warm, prompt, 8)
        for prompt in prompts:
            await assert_same(warm, cold, prompt)
        await settled(warm)


async def test_more_conversations_than_the_budget_and_the_sequences_hold(gguf, cold):
    with opened(gguf) as roomy:
        plan = roomy.memory_plan
    least = 700 * plan.position_bytes * (1 + plan.is_stateful) + plan.num_states * plan.state_bytes
    with opened(gguf, kv_budget_bytes=least) as warm:
        for seed in range(40):
            await complete(warm, ids(45, 100 + seed % 23), 3, conversation=str(seed % 23))
        for seed in (3, 11, 22):
            await assert_same(warm, cold, ids(45, 100 + seed))
        assert warm.statistics().evicted_tokens > 0
        await settled(warm)


@pytest.mark.parametrize("kept", [8, 16, 30, 50])
async def test_places_behind_a_window_can_be_returned_to_when_cells_are_scarce(gguf, cold, kept):
    """llama.cpp takes a cell that its sequence cannot see any more for another token, unless it is told not to."""
    with opened(gguf) as roomy:
        plan = roomy.memory_plan
    least = 330 * plan.position_bytes * (1 + plan.is_stateful) + plan.num_states * plan.state_bytes
    with opened(gguf, kv_budget_bytes=least) as warm:
        for seed, length in ((1, 150), (2, 90), (3, 100), (4, 60)):
            await complete(warm, ids(length, 300 + seed), 2)
        for seed in (2, 3, 4):
            await assert_same(warm, cold, (*ids(90, 300 + seed)[:kept], *ids(6, seed)))
        await settled(warm)


async def test_what_was_evicted_comes_back_from_the_host(gguf, cold):
    with opened(gguf) as roomy:
        plan = roomy.memory_plan
    least = 500 * plan.position_bytes * (1 + plan.is_stateful) + plan.num_states * plan.state_bytes
    with opened(gguf, kv_budget_bytes=least, host_budget_bytes=16 << 20) as warm:
        for seed in range(12):
            await complete(warm, ids(120, 200 + seed), 4, conversation=str(seed))
        for seed in (0, 3, 1):
            # More than a window, or than a block of the entry, lies before the place where this one parts.
            usage = await assert_same(warm, cold, (*ids(120, 200 + seed), *ids(9, seed)), conversation=str(seed))
            assert usage.cached_tokens >= 100
        assert warm.statistics().tiers["host"].hits > 0
        await settled(warm)


async def test_a_conversation_survives_the_engine(gguf, cold, tmp_path):
    prompt = ids(300, 4)
    with opened(gguf, cache_dir=tmp_path) as before:
        answer = await complete(before, prompt, 10, conversation="a")
        await settled(before)
    whole = (*prompt, *answer.token_ids)
    with opened(gguf, cache_dir=tmp_path) as after:
        usage = await assert_same(after, cold, (*whole, *ids(5, 5)), conversation="a")
        assert usage.cached_tokens >= 299
        await settled(after)


async def test_a_flipped_bit_on_disk_is_computed_again(gguf, cold, tmp_path):
    prompt = ids(100, 6)
    with opened(gguf, cache_dir=tmp_path) as before:
        await complete(before, prompt, 4, conversation="a")
        await settled(before)
    (entry,) = tmp_path.glob("*.agentform-kv")
    data = bytearray(entry.read_bytes())
    data[len(data) // 2] ^= 1
    entry.write_bytes(data)
    with opened(gguf, cache_dir=tmp_path) as after:
        usage = await assert_same(after, cold, prompt)
        assert usage.cached_tokens == 0
