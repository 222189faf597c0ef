from __future__ import annotations

import random

import anyio
import pytest

from agentform.runtime.engine import Branch, ScoreRequest
from tests.support.engines import complete, settled
from tests.support.tiny_model import greedy, logprobs

pytestmark = pytest.mark.anyio
SYSTEM = tuple(range(30, 60))


async def test_warm_equals_cold_under_branches_and_evictions(make_engine, tiny):
    """Random requests over few shared beginnings in a pool that holds about two of them."""
    engine = make_engine(positions=110, max_batch_tokens=16)
    draw = random.Random(1)
    for _ in range(40):
        turns = tuple(draw.randrange(3, 6) for _ in range(draw.randrange(1, 30)))
        prompt = (*SYSTEM[: draw.choice([10, 30])], *turns)
        if draw.random() < 0.5:
            assert (await complete(engine, prompt, 6)).token_ids == greedy(tiny.reference, prompt, 6)
        else:
            path = tuple(draw.randrange(3, 6) for _ in range(draw.randrange(3)))
            request = ScoreRequest(prompt_ids=prompt, branches=(Branch(path=path, candidates=(4,)),))
            got = (await engine.score(request)).logprobs[0][0]
            assert got == pytest.approx(float(logprobs(tiny.reference, (*prompt, *path))[4]), abs=1e-4)
        await settled(engine)
    statistics = engine.statistics()
    assert statistics.evicted_tokens > 0
    assert statistics.hit_tokens > 0
    assert statistics.resident_tokens <= 110


async def test_a_request_waits_for_positions_that_others_hold(make_engine, gate, tiny):
    engine = make_engine(positions=100)
    finished = []

    async def run(name, prompt):
        answer = await complete(engine, prompt, 20)
        finished.append((name, answer.token_ids == greedy(tiny.reference, prompt, 20)))

    async with anyio.create_task_group() as group:
        gate.shut()
        group.start_soon(run, "first", SYSTEM)
        await gate.reached(1)
        group.start_soon(run, "second", tuple(range(90, 130)))
        await anyio.wait_all_tasks_blocked()  # trio starts tasks in no fixed order
        group.start_soon(run, "third", tuple(range(150, 190)))
        await anyio.wait_all_tasks_blocked()
        gate.open()
    assert finished == [("first", True), ("second", True), ("third", True)]
    # 30 + 20 held by the first leave no room for 40 + 20: no step ever held tokens of two requests.
    assert 41 not in gate.steps
    await settled(engine)


async def test_a_prompt_is_shared_before_its_first_completion_ends(make_engine, gate):
    engine = make_engine()
    async with anyio.create_task_group() as group:
        group.start_soon(complete, engine, SYSTEM, 40)
        await gate.reached(3)
        gate.shut()
        second = {}

        async def run():
            second["usage"] = (await complete(engine, (*SYSTEM, 7), 2)).usage

        group.start_soon(run)
        await anyio.wait_all_tasks_blocked()
        gate.open()
    assert second["usage"].cached_tokens == len(SYSTEM)


async def test_eviction_is_reported_as_the_reason_of_a_miss(make_engine):
    engine = make_engine(positions=50)
    await complete(engine, SYSTEM, 2)
    await complete(engine, tuple(range(100, 140)), 2)
    usage = (await complete(engine, SYSTEM, 2)).usage
    assert usage.miss == "evicted"
    assert usage.cached_tokens is not None
    assert usage.cached_tokens < len(SYSTEM) - 1
    assert engine.statistics().misses["evicted"] == 1
