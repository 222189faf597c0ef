"""Watching a run: events in order, errors where they are read, and an end when the watcher leaves."""

from __future__ import annotations

import anyio
import pytest

from agentform.agent.conversation import Conversation
from agentform.agent.loop import Agent
from agentform.agent.testing import Call, Fail, Say, ScriptedEngine
from agentform.calls.limits import Limits
from agentform.errors import EngineClosed, InvalidInput
from agentform.messages import (
    AnswerDelta,
    CallReady,
    ChoiceMade,
    ReasoningDelta,
    ToolFinished,
    ToolStarted,
)

pytestmark = pytest.mark.anyio


def weather(city: str) -> str:
    """Says how it is."""
    return f"sunny in {city}"


def ping() -> str:
    """Says pong."""
    return "pong"


def agent_of(*script, **options):
    return Agent(ScriptedEngine(script), tools=[weather, ping], **options)


async def test_events_come_in_the_order_in_which_things_happen():
    agent = agent_of(Call("weather", {"city": "Rome"}, text="I look it up."), Say("It is sunny."))
    async with agent.stream("Hi") as run:
        events = [event async for event in run]
    kinds = [type(event) for event in events]
    told = [ReasoningDelta] * 4
    assert kinds == [*told, ChoiceMade, CallReady, ToolStarted, ToolFinished, *told[:3], ChoiceMade]
    assert "".join(e.text for e in events[:4]) == "I look it up."
    choice, ready, started, finished = events[4:8]
    assert choice.decision.value == "weather"
    assert ready.call == started.call == finished.call
    assert finished.result.content == "sunny in Rome"
    assert events[-1].decision.value is None
    assert run.result.output == "It is sunny."
    assert run.result.calls == (ready.call,)


async def test_an_answer_that_goes_on_beyond_its_reasoning_comes_as_answer():
    async with agent_of(Say("One two three"), limits=Limits(reasoning_tokens=7)).stream("Hi") as run:
        events = [event async for event in run]
    assert "".join(e.text for e in events if isinstance(e, ReasoningDelta)) == "One two"
    assert "".join(e.text for e in events if isinstance(e, AnswerDelta)) == " three"
    assert run.result.output == "One two three"


async def test_a_run_that_is_not_over_has_no_result():
    async with agent_of(Say("Hello.")).stream("Hi") as run:
        with pytest.raises(InvalidInput, match="not over"):
            _ = run.result


async def test_leaving_early_cancels_the_run_and_the_tool_in_it():
    stopped = anyio.Event()

    async def wait() -> None:
        """Waits for ever."""
        try:
            await anyio.sleep_forever()
        finally:
            stopped.set()

    conversation = Conversation()
    agent = Agent(ScriptedEngine([Call("wait"), Say("Hello.")]), tools=[wait])
    with anyio.fail_after(5):
        async with agent.stream("Hi", conversation=conversation) as run:
            async for event in run:
                if isinstance(event, ToolStarted):
                    break
    await stopped.wait()
    assert (conversation.messages, conversation.running) == ([], False)
    assert (await agent.run("Hi", conversation=conversation)).output == "Hello."


async def test_what_ends_the_run_is_raised_where_the_events_are_read():
    error = EngineClosed("gone")
    seen = []

    async def watch() -> None:
        async with agent_of(Call("ping"), Fail(error)).stream("Hi") as run:
            async for event in run:
                seen.append(event)
            pytest.fail("the loop ended as if all were well")

    with pytest.raises(EngineClosed) as caught:
        await watch()
    assert caught.value is error
    assert isinstance(seen[-1], ToolFinished)


async def test_a_reader_may_handle_the_error():
    async with agent_of(Fail(EngineClosed("gone"))).stream("Hi") as run:
        with pytest.raises(EngineClosed):
            await anext(run)
        with pytest.raises(StopAsyncIteration):
            await anext(run)


async def test_an_error_that_nobody_read_is_raised_at_the_end_of_the_block():
    with pytest.raises(EngineClosed):
        async with agent_of(Fail(EngineClosed("gone"))).stream("Hi"):
            await anyio.wait_all_tasks_blocked()


async def test_an_error_of_the_watchers_own_arrives_as_it_is_and_ends_the_run():
    conversation = Conversation()
    error = KeyError("mine")

    async def watch() -> None:
        async with agent_of(Say("Hello there.")).stream("Hi", conversation=conversation) as run:
            async for _ in run:
                raise error

    with pytest.raises(KeyError) as caught:
        await watch()
    assert caught.value is error
    assert (conversation.messages, conversation.running) == ([], False)


async def test_a_call_that_is_not_made_again_is_not_announced():
    rome = Call("weather", {"city": "Rome"})
    async with agent_of(rome, rome, rome, Say("It stays sunny.")).stream("Hi") as run:
        kinds = [type(event) async for event in run]
    assert kinds.count(CallReady) == kinds.count(ToolStarted) == kinds.count(ToolFinished) == 2
