from __future__ import annotations

from functools import partial

import anyio
import pytest

from agentform.errors import DeadlineExceeded, EngineClosed, EngineError
from agentform.runtime.engine import Branch, GenerateRequest, ScoreRequest
from agentform.runtime.scheduling.generation import GenerateJob
from agentform.runtime.scheduling.scheduler import Scheduler
from tests.support.engines import complete, settled
from tests.support.tiny_model import greedy
from tests.support.waiting import PATIENCE_S, background

PROMPT = tuple(range(20, 60))
SCORE = ScoreRequest(prompt_ids=PROMPT, branches=(Branch(path=(), candidates=(1, 2)),))


@pytest.mark.anyio
@pytest.mark.parametrize("num_steps", [1, 2, 4])
async def test_cancelling_in_prefill_and_decode_frees_everything(make_engine, gate, num_steps):
    engine = make_engine(max_batch_tokens=32)
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as group:
            group.start_soon(complete, engine, PROMPT, 100)
            group.start_soon(engine.score, SCORE)
            await gate.reached(num_steps)
            scope.cancel()
    await settled(engine)
    assert (await complete(engine, PROMPT, 4)).last.finish is not None


@pytest.mark.anyio
async def test_cancelling_in_the_queue_frees_the_place(make_engine, gate):
    engine = make_engine(positions=100)
    gate.shut()
    async with anyio.create_task_group() as group:
        group.start_soon(complete, engine, PROMPT, 50)
        await gate.reached(1)
        with anyio.move_on_after(0.02):
            await complete(engine, tuple(range(100, 140)), 50)
        gate.open()
    await settled(engine)
    assert engine.statistics().requests == 1


@pytest.mark.anyio
async def test_closing_the_generator_cancels(engine):
    stream = engine.generate(GenerateRequest(prompt_ids=PROMPT, max_tokens=200))
    await anext(stream)
    await stream.aclose()
    await settled(engine)


@pytest.mark.anyio
async def test_deadline_ends_a_completion_with_what_was_made(make_engine, gate, tiny):
    engine = make_engine()
    stream = engine.generate(GenerateRequest(prompt_ids=PROMPT, max_tokens=100, deadline_s=0.2))
    first = await anext(stream)
    gate.shut()
    await anyio.sleep(0.25)
    gate.open()
    chunks = [first] + [chunk async for chunk in stream]
    assert chunks[-1].finish == "deadline"
    assert chunks[-1].usage is not None
    ids = tuple(token for chunk in chunks for token in chunk.token_ids)
    assert ids == greedy(tiny.reference, PROMPT, len(ids))
    await settled(engine)


@pytest.mark.anyio
async def test_deadline_counts_the_wait_in_the_queue(make_engine, gate):
    engine = make_engine(positions=100)
    gate.shut()
    async with anyio.create_task_group() as group:
        group.start_soon(complete, engine, PROMPT, 50)
        await gate.reached(1)
        late, begun = {}, anyio.Event()

        async def run():
            begun.set()
            late["last"] = (await complete(engine, tuple(range(100, 140)), 50, deadline_s=0.03)).last
            with pytest.raises(DeadlineExceeded):
                await engine.score(ScoreRequest(prompt_ids=(1,), branches=SCORE.branches, deadline_s=0.0))

        group.start_soon(run)
        await begun.wait()
        await anyio.wait_all_tasks_blocked()
        await anyio.sleep(0.05)  # the deadline has begun with the request
        gate.open()
    assert late["last"].finish == "deadline"
    assert late["last"].usage.computed_tokens == 0
    await settled(engine)


@pytest.mark.anyio
async def test_a_step_that_fails_for_one_request_spares_the_others(make_engine, gate, tiny):
    engine = make_engine(max_batch_tokens=64)
    gate.fail_on = lambda num_tokens: num_tokens >= 23 and num_tokens not in (40,)
    outcomes = {}

    async def run(name, prompt):
        try:
            outcomes[name] = (await complete(engine, prompt, 6)).token_ids
        except EngineError as error:
            outcomes[name] = error

    gate.shut()
    async with anyio.create_task_group() as group:
        group.start_soon(run, "good", PROMPT)
        await gate.reached(1)
        group.start_soon(run, "bad", tuple(range(100, 123)))
        group.start_soon(run, "small", (7, 8, 9))
        await anyio.wait_all_tasks_blocked()
        gate.open()
    assert isinstance(outcomes["bad"], EngineError)
    assert isinstance(outcomes["bad"].__cause__, RuntimeError)
    assert outcomes["good"] == greedy(tiny.reference, PROMPT, 6)
    assert outcomes["small"] == greedy(tiny.reference, (7, 8, 9), 6)
    await settled(engine)


@pytest.mark.anyio
async def test_a_failure_after_the_step_is_the_requests_own(engine, monkeypatch):
    monkeypatch.setattr(GenerateJob, "_pick", lambda self, logits: 1 // 0)
    with pytest.raises(EngineError, match="ZeroDivisionError"):
        await complete(engine, PROMPT, 4)
    assert (await engine.score(SCORE)).logprobs
    await settled(engine)


@pytest.mark.anyio
async def test_a_failure_of_the_loop_itself_fails_all_and_hangs_none(make_engine, gate, monkeypatch):
    engine = make_engine()
    gate.shut()
    errors = []

    async def run(call):
        with pytest.raises(EngineClosed, match="worker died") as caught:
            await call
        errors.append(caught.value)

    with anyio.fail_after(PATIENCE_S):
        async with anyio.create_task_group() as group:
            group.start_soon(run, complete(engine, PROMPT, 4))
            group.start_soon(run, complete(engine, PROMPT[:20], 4))
            await gate.reached(1)
            monkeypatch.setattr(Scheduler, "_admit", lambda self: 1 // 0)
            gate.open()
        await run(engine.score(SCORE))
    assert len(errors) == 3
    assert all(isinstance(error.__cause__, ZeroDivisionError) for error in errors)
    await engine.aclose()


@pytest.mark.anyio
async def test_closing_ends_requests_in_flight_and_refuses_later_ones(make_engine, gate):
    engine = make_engine()
    gate.shut()

    async def run():
        with pytest.raises(EngineClosed):
            await complete(engine, PROMPT, 100)

    async with anyio.create_task_group() as group:
        group.start_soon(run)
        await gate.reached(1)
        group.start_soon(engine.aclose)
        await anyio.wait_all_tasks_blocked()
        gate.open()
    with pytest.raises(EngineClosed):
        await engine.score(SCORE)
    await engine.aclose()
    engine.close()
    assert not engine_thread(engine).is_alive()


def engine_thread(engine):
    return engine._serving._worker._thread


@pytest.mark.anyio
async def test_context_manager_closes(make_engine):
    async with make_engine() as engine:
        await complete(engine, PROMPT, 2)
    with pytest.raises(EngineClosed):
        await complete(engine, PROMPT, 2)


def test_an_engine_serves_event_loops_one_after_the_other(engine, tiny):
    for backend in ("asyncio", "trio", "asyncio"):
        answer = anyio.run(complete, engine, PROMPT, 8, backend=backend)
        assert answer.token_ids == greedy(tiny.reference, PROMPT, 8)


def test_an_engine_serves_several_event_loops_at_once(engine, tiny):
    answers = {}

    def run(index, backend):
        prompt = (*PROMPT, 3 + index)
        answers[index] = anyio.run(complete, engine, prompt, 8, backend=backend).token_ids

    with background(*(partial(run, i, backend) for i, backend in enumerate(["asyncio", "trio"] * 2))):
        pass
    assert answers == {i: greedy(tiny.reference, (*PROMPT, 3 + i), 8) for i in range(4)}


def test_a_loop_that_ends_in_the_middle_leaves_the_engine_whole(engine):
    async def leave():
        stream = engine.generate(GenerateRequest(prompt_ids=PROMPT, max_tokens=200))
        await anext(stream)
        await stream.aclose()

    for backend in ("asyncio", "trio"):
        anyio.run(leave, backend=backend)
    anyio.run(settled, engine)


def test_an_engine_that_is_dropped_ends_its_thread(make_engine, tiny):
    from agentform.runtime.torch.engine import TorchEngine

    engine = TorchEngine(tiny.folder, kv_budget_bytes=1 << 20)
    thread = engine_thread(engine)
    del engine
    thread.join(PATIENCE_S)
    assert not thread.is_alive()


@pytest.mark.anyio
async def test_a_score_that_fails_returns_its_scratch(make_engine, gate):
    engine = make_engine()
    await engine.score(SCORE)
    gate.fail_on = lambda num_tokens: True
    with pytest.raises(EngineError, match="broken step"):
        await engine.score(ScoreRequest(prompt_ids=PROMPT, branches=(Branch(path=(5, 6), candidates=(1,)),)))
    await settled(engine)
    assert engine.statistics().resident_tokens == len(PROMPT)
