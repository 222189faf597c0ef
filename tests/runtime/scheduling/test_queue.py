"""Who runs next: warm prompts first, nobody starves, and a common beginning is computed once."""

from __future__ import annotations

import random
from contextlib import aclosing

import anyio
import anyio.lowlevel
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from agentform._util.prefixes import best_prefix, common_prefix
from agentform.runtime.cache.prefix_cache import PrefixCache
from agentform.runtime.engine import GenerateRequest
from agentform.runtime.scheduling.queue import WaitingLine
from agentform.runtime.torch.engine import TorchEngine
from tests.support.engines import complete, settled
from tests.support.tiny_hybrids import write_tiny_hybrid
from tests.support.tiny_model import greedy, write_tiny_model

TOKENS = st.lists(st.integers(0, 1), max_size=40)
SHARED = tuple(range(20, 90))


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


class Request:
    """As much of a job as the line looks at."""

    def __init__(self, *ids, computed=0):
        self.ids = list(ids)
        self.num_prompt = len(ids)
        self.usable = len(ids) - 1
        self.num_computed = computed
        self.done = False
        self.forks = []

    def expect_fork(self, at):
        self.forks.append(at)


def run(cache, ids):
    """A request that computes `ids` and leaves a snapshot at their end."""
    lease = cache.open(ids, usable=len(ids) - 1, extra=0)
    cache.grow(lease, lease.reserved)
    cache.commit(lease, ids)
    if cache.is_recurrent and cache.snapshot_room(lease, len(ids)):
        cache.attach(lease, ids)
    cache.close(lease)
    cache.integrity()


def filled(*sequences):
    cache = PrefixCache(1000)
    for ids in sequences:
        run(cache, ids)
    return cache


def line_of(cache, *requests, max_overtaken=3, max_wait_s=100.0, clock=None):
    line = WaitingLine(cache, max_overtaken=max_overtaken, max_wait_s=max_wait_s, clock=clock or Clock())
    for request in requests:
        line.add(request)
    return line


def admit(line, running=()):
    request = line.next(running)
    if request is not None:
        line.admitted(request)
    return request


@given(TOKENS, TOKENS)
def test_a_common_prefix_is_as_long_as_can_be(a, b):
    num = common_prefix(a, b)
    assert a[:num] == b[:num]
    assert num in (len(a), len(b)) or a[num] != b[num]


@given(st.dictionaries(st.sampled_from("abcdef"), TOKENS.map(tuple)), TOKENS, st.booleans())
def test_the_best_prefix_is_the_longest(held, ids, whole):
    num, name = best_prefix(held.items(), ids, whole=whole)
    shared = {key: common_prefix(each, tuple(ids)) for key, each in held.items()}
    usable = [n for key, n in shared.items() if n == len(held[key]) or not whole]
    assert num == max(usable, default=0)
    assert (name is None) == (num == 0)


def test_the_warmest_prompt_runs_first_and_equals_as_they_came():
    cache = filled(tuple(range(50)), tuple(range(100, 120)))
    cold, warm, warmest = Request(*range(200, 260)), Request(*range(100, 125)), Request(*range(60))
    second = Request(*range(300, 360))
    line = line_of(cache, cold, second, warm, warmest)
    assert [admit(line) for _ in range(4)] == [warmest, warm, cold, second]
    assert admit(line) is None


@given(seed=st.integers(0, 2**16), limit=st.integers(0, 5))
def test_nobody_is_overtaken_more_often_than_allowed(seed, limit):
    """A cold request among a stream of warm ones that never ends."""
    draw = random.Random(seed)
    line = line_of(filled(tuple(range(50))), max_overtaken=limit)
    came, passed = [], {}
    for number in range(40):
        request = (
            Request(*range(1000 + 100 * number, 1050 + 100 * number), 1) if draw.random() < 0.3 else Request(*range(52))
        )
        came.append(request)
        line.add(request)
        if draw.random() < 0.8:
            chosen = admit(line)
            for earlier in came[: came.index(chosen)]:
                passed[earlier] = passed.get(earlier, 0) + 1
            came.remove(chosen)
    assert max(passed.values(), default=0) <= limit


def test_nobody_is_overtaken_after_a_time():
    clock = Clock()
    cold, warm = Request(*range(200, 260)), Request(*range(60))
    line = line_of(filled(tuple(range(50))), cold, warm, max_wait_s=5.0, clock=clock)
    assert line.next(()) is warm
    clock.now = 5.0
    assert line.next(()) is cold


def test_a_request_waits_for_the_one_that_computes_its_beginning_and_others_do_not():
    first = Request(*SHARED, 1, 2, 3, computed=16)
    second, other = Request(*SHARED, 4, 5), Request(*range(200, 240))
    line = line_of(PrefixCache(1000), second, other)
    assert admit(line, [first]) is other
    assert admit(line, [first]) is None
    assert set(first.forks) == {len(SHARED)}
    first.num_computed = len(SHARED)
    assert admit(line, [first]) is second


def test_a_request_does_not_wait_for_little_nor_for_ever_nor_where_nothing_is_reused():
    first = Request(*SHARED, 1)
    assert admit(line_of(PrefixCache(1000), Request(*SHARED[:20], 7, 8)), [first]) is not None
    assert admit(line_of(PrefixCache(1000, reuse=False), Request(*SHARED, 7)), [first]) is not None
    assert admit(line_of(PrefixCache(1000), Request(*SHARED, 7), max_wait_s=0.0), [first]) is not None
    assert admit(line_of(filled(SHARED), Request(*SHARED, 7)), [first]) is not None


@pytest.mark.parametrize("recurrent", [False, True])
def test_what_a_waiting_request_will_use_is_evicted_last(recurrent):
    clock = Clock()
    snapshots = {"snapshot_positions": 5, "num_slots": 4} if recurrent else {}
    cache = PrefixCache(110, clock=clock, **snapshots)
    for first, age in ((0, 0.0), (100, 50.0)):
        clock.now = age
        run(cache, tuple(range(first, first + 40)))
    clock.now = 51.0
    waits = Request(*range(40), 7)
    line = line_of(cache, waits, clock=clock)
    assert line.next(()) is waits
    run(cache, tuple(range(200, 250)))
    assert cache.peek(range(40))[1] == 40  # older, and still there
    assert cache.peek(range(100, 140))[1] < 40
    run(cache, tuple(range(300, 400)))  # but it stops nobody
    assert cache.peek(range(40))[1] < 40


@pytest.fixture(scope="module", params=["llama", "qwen3_next"])
def model(request, tmp_path_factory):
    """Family, folder and transformers' model."""
    folder = tmp_path_factory.mktemp(request.param)
    write = write_tiny_model if request.param == "llama" else lambda place: write_tiny_hybrid(place, request.param)
    return request.param, folder, write(folder)


@pytest.fixture
def make(model):
    made = []

    def make(**options):
        engine = TorchEngine(model[1], dtype=torch.float32, num_threads=1, **{"kv_budget_bytes": 1 << 21} | options)
        made.append(engine)
        return engine

    yield make
    for engine in made:
        engine.close()


@pytest.mark.anyio
async def test_requests_at_once_compute_their_common_beginning_once(make, model):
    engine = make(max_batch_tokens=35)  # of which two steps are the beginning
    prompts = [(*SHARED, *range(number, number + 20)) for number in range(4)]
    answers = {}

    async def ask(prompt):
        answers[prompt] = await complete(engine, prompt, 4)

    async with anyio.create_task_group() as group:
        for prompt in prompts:
            group.start_soon(ask, prompt)
    for prompt in prompts:
        assert answers[prompt].token_ids == greedy(model[2], prompt, 4)
    reused = sorted(answer.usage.cached_tokens for answer in answers.values())
    assert reused == [0, 70, 70, 70]
    assert engine.statistics().computed_tokens < 70 + 4 * 24
    await settled(engine)


def note_admissions(monkeypatch):
    """Prompts in the order in which requests begin to run; when their answers are seen is up to the event loop."""
    seen = []
    admit = WaitingLine.admitted

    def admitted(line, job):
        seen.append(tuple(job.ids))
        admit(line, job)

    monkeypatch.setattr(WaitingLine, "admitted", admitted)
    return seen


async def submitted():
    """Let the tasks just started hand in their requests, while the one that runs has most of its tokens to go."""
    for _ in range(10):
        await anyio.lowlevel.checkpoint()


@pytest.mark.anyio
async def test_a_cold_request_gets_through_a_stream_of_warm_ones(make, model, monkeypatch):
    slot = {"num_slots": 1} if model[0] != "llama" else {}
    engine = make(max_overtaken=2, **slot)
    await complete(engine, SHARED, 2)
    cold, warm = tuple(range(120, 170)), [(*SHARED, number) for number in range(5)]
    admitted = note_admissions(monkeypatch)
    right = []

    async def ask(prompt):
        answer = await complete(engine, prompt, 3)
        right.append(answer.token_ids == greedy(model[2], prompt, 3))

    async with anyio.create_task_group() as group:
        # One request keeps the only slot busy while the others line up.
        async with aclosing(engine.generate(GenerateRequest(prompt_ids=SHARED, max_tokens=100))) as chunks:
            await anext(chunks)
            for prompt in (cold, *warm):
                group.start_soon(ask, prompt)
                await submitted()
    assert right == [True] * 6
    assert sorted(admitted) == sorted([SHARED, cold, *warm])
    if model[0] != "llama":
        assert admitted.index(cold) == 3  # behind the one that was busy, and two that overtook it
    await settled(engine)
