"""Several calls in one turn: chosen one after the other, run at the same time, each with its own result."""

from __future__ import annotations

from typing import Literal

import anyio
import anyio.lowlevel
import pytest

from agentform.agent.agent import Agent
from agentform.agent.conversation import Conversation
from agentform.decoding.limits import Limits
from agentform.errors import DeadlineExceeded, ToolFailed
from agentform.events import CallReady, ChoiceMade, ToolFinished, ToolStarted
from agentform.runtime.engine import GenerateRequest
from agentform.testing import ByteTokenizer, Call, Say, ScriptedEngine
from tests.support.waiting import PATIENCE_S

pytestmark = pytest.mark.anyio
THREE = Limits(parallel_calls=3)
CITIES = ("Rome", "Oslo", "Bern")


def weather(city: str) -> str:
    """Says how it is."""
    return f"sunny in {city}"


def light(room: Literal["hall", "kitchen"], on: bool) -> str:
    """Switches a light."""
    return room


def calls(name: str, *values: str) -> Call:
    first, *others = (Call(name, {"city": value}) for value in values)
    return Call(first.name, first.arguments, text="I look them up.", also=others)


def tool_messages(conversation):
    return [(m.result.call_id, m.content) for m in conversation.messages if m.role == "tool"]


@pytest.mark.parametrize("native", [False, True])
async def test_a_turn_makes_several_calls_and_their_results_come_in_order(native):
    tokenizer = ByteTokenizer(tool_template=native)
    script = [Call("weather", {"city": "Rome"}, text="So.", also=[Call("light", {"room": "hall", "on": True})])]
    engine = ScriptedEngine([*script, Say("Done.")], tokenizer=tokenizer)
    conversation = Conversation()
    agent = Agent(engine, tools=[weather, light], limits=Limits(parallel_calls=4))
    async with agent.stream("Hi", conversation=conversation) as run:
        events = [event async for event in run]
    assert [(c.name, dict(c.arguments)) for c in run.result.calls] == [
        ("weather", {"city": "Rome"}),
        ("light", {"room": "hall", "on": True}),
    ]
    ids = [call.id for call in run.result.calls]
    assert tool_messages(conversation) == [(ids[0], "sunny in Rome"), (ids[1], "hall")]
    assert [e.decision.value for e in events if isinstance(e, ChoiceMade)] == ["weather", "light", None]
    assert [e.call.id for e in events if isinstance(e, CallReady)] == ids
    prompts = [r.prompt_ids for r in engine.requests if isinstance(r, GenerateRequest) and r.grammar is None]
    told = tokenizer.decode(prompts[1])
    between = '</tool_call>\n<tool_call>\n{"name": "light", "arguments": {"room": "hall", "on": true}}\n</tool_call>'
    assert between in told


async def test_what_the_engine_saw_of_a_turn_with_several_calls_is_the_next_prompts_beginning():
    conversation = Conversation()
    engine = ScriptedEngine([calls("weather", *CITIES), Say("Done.")])
    seen = []
    async with Agent(engine, tools=[weather, light], limits=THREE).stream("Hi", conversation=conversation) as run:
        async for event in run:
            if isinstance(event, ToolStarted):
                seen.append(conversation.token_ids)
    prompts = [r.prompt_ids for r in engine.requests if isinstance(r, GenerateRequest) and r.grammar is None]
    assert len(set(seen)) == 1
    assert prompts[1][: len(seen[0])] == seen[0]


@pytest.mark.parametrize("native", [False, True])
async def test_the_limit_bounds_the_calls_of_a_turn(native):
    script = [calls("weather", "Rome", "Oslo"), Say("Done.")]
    engine = ScriptedEngine(script, tokenizer=ByteTokenizer(tool_template=native))
    result = await Agent(engine, tools=[weather, light]).run("Hi")
    assert [call.arguments["city"] for call in result.calls] == ["Rome"]


async def test_each_call_has_its_own_usage_and_the_first_the_reasoning():
    result = await Agent(ScriptedEngine([calls("weather", *CITIES), Say("Done.")]), tools=[weather], limits=THREE).run(
        ""
    )
    spoken = len("I look them up.") + 1
    lengths = [len(f'"{city}"') for city in CITIES]
    used = [call.usage.completion_tokens for call in result.calls]
    assert used == [spoken + lengths[0], lengths[1], lengths[2]]
    assert result.usage.completion_tokens == sum(used) + len("Done.") + 1


async def test_the_same_call_twice_in_a_turn_is_made_once_and_ends_it():
    script = [calls("weather", "Rome", "Rome", "Oslo"), Say("Done.")]
    result = await Agent(ScriptedEngine(script), tools=[weather], limits=THREE).run("Hi")
    assert [call.arguments["city"] for call in result.calls] == ["Rome"]
    assert result.output == "Done."


async def test_tools_run_at_the_same_time_and_results_keep_the_order_of_the_calls():
    started: list[str] = []
    ended: list[str] = []
    all_started = anyio.Event()

    async def meet(city: str) -> str:
        """Waits for the others, then goes home in reverse."""
        started.append(city)
        if len(started) == 3:
            all_started.set()
        await all_started.wait()
        while len(ended) < 2 - CITIES.index(city):
            await anyio.lowlevel.checkpoint()
        ended.append(city)
        return f"met in {city}"

    engine = ScriptedEngine([calls("meet", *CITIES), Say("Done.")])
    with anyio.fail_after(PATIENCE_S):
        result = await Agent(engine, tools=[meet], limits=THREE).run("Hi")
    assert ended == ["Bern", "Oslo", "Rome"]
    assert [m.content for m in result.messages if m.role == "tool"] == [f"met in {city}" for city in CITIES]


async def test_no_more_tools_run_at_once_than_the_limit_says():
    running = most = 0

    async def work(city: str) -> str:
        """Works."""
        nonlocal running, most
        running += 1
        most = max(most, running)
        for _ in range(5):
            await anyio.lowlevel.checkpoint()
        running -= 1
        return city

    engine = ScriptedEngine([calls("work", *CITIES), Say("Done.")])
    await Agent(engine, tools=[work], limits=Limits(parallel_calls=3, tools_at_once=2)).run("Hi")
    assert most == 2


async def picky(city: str) -> str:
    """Does not like Oslo."""
    if city == "Oslo":
        raise LookupError("no Oslo")
    await anyio.sleep(0.01)
    return city


async def test_one_that_fails_does_not_lose_the_others():
    engine = ScriptedEngine([calls("picky", *CITIES), Say("Done.")])
    result = await Agent(engine, tools=[picky], limits=THREE).run("Hi")
    assert [m.content for m in result.messages if m.role == "tool"] == ["Rome", "Error: LookupError: no Oslo", "Bern"]


async def test_one_whose_failure_is_raised_lets_the_others_end_and_all_is_told():
    conversation = Conversation()
    engine = ScriptedEngine([calls("picky", *CITIES), Say("Still here.")])
    agent = Agent(engine, tools=[picky], limits=THREE, on_tool_error="raise")
    with pytest.raises(ToolFailed, match="no Oslo"):
        await agent.run("Hi", conversation=conversation)
    contents = [m.content for m in conversation.messages if m.role == "tool"]
    assert contents == ["Rome", "Error: LookupError: no Oslo", "Bern"]
    assert (await agent.run("And now?", conversation=conversation)).output == "Still here."


async def some_forever(city: str) -> str:
    """Never comes back from Oslo."""
    if city == "Oslo":
        await anyio.sleep_forever()
    return city


async def test_calls_that_had_ended_when_the_run_was_cancelled_keep_their_results():
    conversation = Conversation()
    agent = Agent(
        ScriptedEngine([calls("some_forever", *CITIES), Say("Still here.")]), tools=[some_forever], limits=THREE
    )
    done = 0
    async with agent.stream("Hi", conversation=conversation) as run:
        async for event in run:
            done += isinstance(event, ToolFinished)
            if done == 2:
                break
    assert [m.content for m in conversation.messages if m.role == "tool"] == [
        "Rome",
        "Error: the run was stopped before this call had ended",
        "Bern",
    ]
    assert (await agent.run("And now?", conversation=conversation)).output == "Still here."


async def test_the_same_at_the_deadline():
    conversation = Conversation()
    agent = Agent(ScriptedEngine([calls("some_forever", *CITIES)]), tools=[some_forever], limits=THREE)
    limits = Limits(parallel_calls=3, deadline_s=3)
    with anyio.fail_after(PATIENCE_S), pytest.raises(DeadlineExceeded):
        await agent.run("Hi", conversation=conversation, limits=limits)
    assert [m.result.is_error for m in conversation.messages if m.role == "tool"] == [False, True, False]


async def test_two_runs_of_one_agent_do_not_share_their_calls():
    engine = ScriptedEngine([calls("weather", "Rome", "Oslo"), calls("weather", "Bern"), Say("Done."), Say("Done.")])
    agent = Agent(engine, tools=[weather], limits=THREE)
    results = []

    async def run(name: str) -> None:
        results.append(await agent.run(f"I am {name}"))

    async with anyio.create_task_group() as group:
        group.start_soon(run, "a")
        group.start_soon(run, "b")
    assert sorted(len(result.calls) for result in results) == [1, 2]
