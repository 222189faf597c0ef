"""Watching a run: events in order, errors where they are read, and an end when the watcher leaves."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Literal

import anyio
import pytest

from agentform.agent.agent import Agent
from agentform.agent.conversation import Conversation
from agentform.decoding.limits import Limits
from agentform.errors import EngineClosed, InvalidInput
from agentform.events import (
    AnswerDelta,
    ArgumentChosen,
    ArgumentDelta,
    CallReady,
    ChoiceMade,
    ReasoningDelta,
    RunFinished,
    ToolFinished,
    ToolStarted,
    TurnFinished,
)
from agentform.schema.target import load
from agentform.testing import Call, Fail, Say, ScriptedEngine
from agentform.tools.tool import tool
from tests.support.waiting import PATIENCE_S

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
    called = [ChoiceMade, ArgumentDelta, TurnFinished, CallReady, ToolStarted, ToolFinished]
    assert kinds == [*told, *called, *told[:3], ChoiceMade, TurnFinished, RunFinished]
    assert "".join(e.text for e in events[:4]) == "I look it up."
    choice, _, _, ready, started, finished = events[4:10]
    assert choice.decision.value == "weather"
    assert ready.call == started.call == finished.call
    assert finished.result.content == "sunny in Rome"
    assert events[-3].decision.value is None
    assert run.result.output == "It is sunny."
    assert run.result.calls == (ready.call,)


async def test_usage_comes_with_every_turn_and_at_the_end():
    agent = agent_of(Call("weather", {"city": "Rome"}, text="I look it up."), Say("It is sunny."))
    async with agent.stream("Hi") as run:
        events = [event async for event in run]
    first, second = [event for event in events if isinstance(event, TurnFinished)]
    assert (first.step, second.step) == (0, 1)
    assert first.usage == first.total == run.result.calls[0].usage
    assert first.usage + second.usage == second.total == events[-1].usage == run.result.usage
    assert second.usage.completion_tokens == len("It is sunny.") + 1
    assert events[-1].finish == "answer"


def book(room: Literal["attic", "cellar"], guest: str, quiet: bool, note: str) -> str:
    """Books a room."""
    return "booked"


BOOKED = {"room": "cellar", "guest": "Ada", "quiet": True, "note": "Late, by train."}


async def test_arguments_come_as_they_are_chosen_and_written():
    agent = Agent(ScriptedEngine([Call("book", BOOKED), Say("Done.")]), tools=[book])
    async with agent.stream("Hi") as run:
        events = [event async for event in run]
    [call] = run.result.calls
    chosen = [event for event in events if isinstance(event, ArgumentChosen)]
    assert [(e.evidence.pointer, e.evidence.value) for e in chosen] == [("/room", "cellar"), ("/quiet", True)]
    assert [event.evidence for event in chosen] == [e for e in call.evidence if e.how == "scored"]
    written = [event for event in events if isinstance(event, ArgumentDelta)]
    assert {(e.call_id, e.tool) for e in [*chosen, *written]} == {(call.id, "book")}
    texts = {p: "".join(e.text for e in written if e.pointer == p) for p in ("/guest", "/note")}
    assert {p: json.loads(text) for p, text in texts.items()} == {"/guest": "Ada", "/note": "Late, by train."}
    assert {e.attempt for e in written} == {0}


async def test_an_argument_that_is_written_again_says_so():
    def day(date: str) -> str:
        """Books a day."""
        return date

    schema = {"type": "object", "properties": {"date": {"type": "string", "format": "date"}}, "required": ["date"]}
    script = [Call("day", {"date": "2024-02-30"}, repairs=[{"date": "2024-02-29"}]), Say("Done.")]
    agent = Agent(ScriptedEngine(script), tools=[replace(tool(day), target=load(schema, name="day"))])
    async with agent.stream("Hi") as run:
        written = [event async for event in run if isinstance(event, ArgumentDelta)]
    assert [(e.attempt, e.text) for e in written] == [(0, '"2024-02-30"'), (1, '"2024-02-29"')]


async def test_an_argument_that_looped_is_announced_anew_and_marked():
    script = [Call("weather", {"city": "Rome_" * 20}, repairs=[{"city": "Rome"}]), Say("It is sunny.")]
    async with agent_of(*script, limits=Limits(argument_tokens=60)).stream("Hi") as run:
        written = [event async for event in run if isinstance(event, ArgumentDelta)]
    [call] = run.result.calls
    assert {e.attempt for e in written} == {0, 1}
    assert "".join(e.text for e in written if e.attempt == 1) == '"Rome"'
    assert [(e.value, e.how) for e in call.evidence] == [("Rome", "repaired")]


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
    with anyio.fail_after(PATIENCE_S):
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
