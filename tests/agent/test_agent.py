"""The agent's loop on a scripted engine: what a run returns, keeps and costs."""

from __future__ import annotations

import functools
from typing import Literal

import anyio
import pytest

from agentform.agent.agent import Agent
from agentform.agent.conversation import Conversation
from agentform.decoding.limits import Limits
from agentform.errors import (
    ContextOverflow,
    DeadlineExceeded,
    EngineClosed,
    InvalidInput,
    ScriptMismatch,
    ToolFailed,
)
from agentform.messages import Message
from agentform.testing import Call, Fail, Say, ScriptedEngine, scripted_call
from agentform.tools.tool import tool
from tests.support.waiting import PATIENCE_S

pytestmark = pytest.mark.anyio


@tool
def weather(city: str) -> str:
    """Says how it is."""
    return f"sunny in {city}"


@tool
def light(room: Literal["hall", "kitchen"], on: bool) -> dict[str, object]:
    """Switches a light."""
    return {"room": room, "on": on}


@tool
def ping() -> str:
    """Says pong."""
    return "pong"


ROME = Call("weather", {"city": "Rome"}, text="I look it up.")
HALL = Call("light", {"room": "hall", "on": True}, text="I switch it on.")


def contents(conversation):
    return [(m.role, m.content) for m in conversation.messages]


async def test_a_call_and_then_an_answer():
    engine = ScriptedEngine([ROME, Say("It is sunny.")])
    conversation = Conversation()
    result = await Agent(engine, tools=[weather, light]).run("How is Rome?", conversation=conversation)
    assert (result.output, result.finish) == ("It is sunny.", "answer")
    assert contents(conversation) == [
        ("user", "How is Rome?"),
        ("assistant", "I look it up."),
        ("tool", "sunny in Rome"),
        ("assistant", "It is sunny."),
    ]
    assert result.messages == tuple(conversation.messages)
    [call] = result.calls
    assert (call.name, call.arguments) == ("weather", {"city": "Rome"})
    assert conversation.messages[1].calls == (call,)
    assert conversation.messages[2].result.call_id == call.id
    assert (call.decision.value, call.decision.how) == ("weather", "scored")
    assert engine.num_turns_left == 0


async def test_several_calls_in_a_row_and_a_second_run_that_goes_on():
    engine = ScriptedEngine([HALL, Call("ping", text="And"), ROME, Say("Done."), Say("You are welcome.")])
    agent = Agent(engine, tools=[weather, light, ping])
    conversation = Conversation()
    result = await agent.run("All of it", conversation=conversation)
    assert [c.name for c in result.calls] == ["light", "ping", "weather"]
    assert [m.content for m in result.messages if m.role == "tool"] == [
        '{"room": "hall", "on": true}',
        "pong",
        "sunny in Rome",
    ]
    second = await agent.run("Thanks", conversation=conversation)
    assert second.output == "You are welcome."
    assert len(second.messages) == 10
    assert second.calls == ()


async def test_a_tool_whose_arguments_are_all_closed_costs_no_completion_token():
    result = await Agent(ScriptedEngine([HALL, Say("Done.")]), tools=[weather, light]).run("On!")
    [call] = result.calls
    reasoning = len("I switch it on.") + 1
    assert call.usage.completion_tokens == call.usage.reasoning_tokens == reasoning
    assert result.usage.completion_tokens == reasoning + len("Done.") + 1
    assert result.usage.reasoning_tokens == reasoning
    assert {e.how for e in call.evidence} == {"scored"}


async def test_content_free_prompts_are_not_the_conversations():
    engine = ScriptedEngine([HALL, Say("Done.")])
    conversation = Conversation()
    await Agent(engine, tools=[weather, light]).run("Please switch it on", conversation=conversation)
    asks = [(r.conversation, "Please switch it on" in engine.tokenizer.decode(r.prompt_ids)) for r in engine.requests]
    assert set(asks) == {(conversation.id, True), (None, False)}


async def test_a_calls_usage_is_that_of_its_own_turn():
    result = await Agent(ScriptedEngine([ROME, ROME, Say("Done.")]), tools=[weather, light]).run("Twice")
    first, second = result.calls
    wanted = len("I look it up.") + 1 + len('"Rome"')
    assert first.usage.completion_tokens == second.usage.completion_tokens == wanted
    assert result.usage.completion_tokens == 2 * wanted + len("Done.") + 1


async def test_a_tool_without_arguments_gets_none():
    result = await Agent(ScriptedEngine([Call("ping"), Say("Done.")]), tools=[ping, light]).run("Ping")
    assert (result.calls[0].arguments, result.calls[0].evidence) == ({}, ())
    assert result.messages[2].content == "pong"


@pytest.mark.parametrize(("script", "called"), [(Call("answer"), 1), (Say("Yes.", name="answer_"), 0)])
async def test_a_tool_may_be_called_answer(script, called):
    @tool
    def answer() -> str:
        """Answers."""
        return "42"

    result = await Agent(ScriptedEngine([script, Say("Yes.", name="answer_")]), tools=[answer, light]).run("What?")
    assert len(result.calls) == called
    assert result.output == "Yes."


async def test_an_agent_without_tools_answers_and_scores_nothing():
    engine = ScriptedEngine([Say(" Hello there.\n")])
    result = await Agent(engine, instructions="Be kind.").run("Hi")
    assert result.output == "Hello there."
    assert len(engine.requests) == 1
    assert "Be kind." in engine.tokenizer.decode(engine.requests[0].prompt_ids)


async def test_an_answer_beyond_its_limit_is_said_to_be_cut_off():
    result = await Agent(ScriptedEngine([Say("abc def")])).run("Hi", limits=Limits(answer_tokens=5))
    assert (result.output, result.finish) == ("abc d", "length")


async def test_an_answer_longer_than_the_reasoning_limit_goes_on_where_it_stopped():
    engine = ScriptedEngine([Say("One two\nthree.")])
    agent = Agent(engine, tools=[weather, light], limits=Limits(reasoning_tokens=8, answer_tokens=100))
    result = await agent.run("Hi")
    assert (result.output, result.finish) == ("One two\nthree.", "answer")
    assert result.usage.completion_tokens == len("One two\nthree.") + 1
    assert result.usage.reasoning_tokens == 0


async def test_a_model_that_begins_a_call_itself_is_taken_at_its_word():
    engine = ScriptedEngine([Call("weather", {"city": "Rome"}, text="So:\n<tool_call>"), Say("Done.")])
    result = await Agent(engine, tools=[weather]).run("Hi")
    assert (result.calls[0].decision.how, result.messages[1].content) == ("fixed", "So:")


async def broken(city: str) -> str:
    """Always fails."""
    raise LookupError(f"no {city}")


async def test_a_tools_error_is_fed_back():
    result = await Agent(ScriptedEngine([Call("broken", {"city": "Rome"}), Say("Sorry.")]), tools=[broken]).run("Hi")
    assert result.output == "Sorry."
    assert result.messages[2].content == "Error: LookupError: no Rome"
    assert result.messages[2].result.is_error


async def test_a_tools_error_can_be_raised_and_leaves_the_conversation_as_it_was():
    engine = ScriptedEngine([Call("broken", {"city": "Rome"}), Say("Hello.")])
    agent = Agent(engine, tools=[broken], on_tool_error="raise")
    conversation = Conversation()
    with pytest.raises(ToolFailed, match="no Rome") as caught:
        await agent.run("Hi", conversation=conversation)
    assert isinstance(caught.value.__cause__, LookupError)
    assert conversation.messages == []
    assert (await agent.run("Hi again", conversation=conversation)).output == "Hello."


async def test_in_its_last_step_a_run_answers_without_its_tools():
    engine = ScriptedEngine([ROME, Say("I stop here.")])
    result = await Agent(engine, tools=[weather, light], limits=Limits(steps=2)).run("Hi")
    assert (result.output, result.finish, len(result.calls)) == ("I stop here.", "steps", 1)


async def test_the_same_call_again_and_again_is_broken_off():
    engine = ScriptedEngine([ROME, ROME, ROME, Say("It stays sunny.")])
    result = await Agent(engine, tools=[weather, light]).run("Hi")
    assert (result.output, result.finish, len(result.calls)) == ("It stays sunny.", "repetition", 2)


async def test_a_deadline_ends_a_slow_tool():
    stopped = anyio.Event()

    async def slow() -> str:
        """Takes its time."""
        try:
            await anyio.sleep(30)
        finally:
            stopped.set()
        return "late"

    conversation = Conversation()
    agent = Agent(ScriptedEngine([Call("slow"), Say("Hello.")]), tools=[slow])
    with anyio.fail_after(PATIENCE_S), pytest.raises(DeadlineExceeded, match=r"within 3\S* s"):
        await agent.run("Hi", conversation=conversation, limits=Limits(deadline_s=3))
    assert stopped.is_set()
    assert (conversation.messages, conversation.running) == ([], False)
    assert (await agent.run("Hi", conversation=conversation)).output == "Hello."


@pytest.mark.parametrize(
    "script", [[Say("Hello.", delay_s=30)], [Call("ping", delay_s=0.15), Say("Hello.", delay_s=30)]]
)
async def test_a_deadline_ends_a_slow_engine(script):
    with anyio.fail_after(PATIENCE_S), pytest.raises(DeadlineExceeded, match=r"within 0\.2 s"):
        await Agent(ScriptedEngine(script), tools=[ping, light]).run("Hi", limits=Limits(deadline_s=0.2))


async def test_a_timeout_of_a_tools_own_is_an_error_like_any_other():
    async def late() -> str:
        """Gives up by itself."""
        raise TimeoutError("gave up")

    result = await Agent(ScriptedEngine([Call("late"), Say("Sorry.")]), tools=[late]).run(
        "Hi", limits=Limits(deadline_s=PATIENCE_S)
    )
    assert result.messages[2].content == "Error: TimeoutError: gave up"


async def test_a_cancelled_run_keeps_what_has_happened_and_leaves_the_conversation_usable():
    reached = anyio.Event()

    async def wait(city: str) -> str:
        """Waits for ever."""
        reached.set()
        await anyio.sleep_forever()
        return city

    engine = ScriptedEngine([ROME, Call("wait", {"city": "Oslo"}), Say("Still here.")])
    agent = Agent(engine, tools=[weather, wait])
    conversation = Conversation()
    async with anyio.create_task_group() as group:
        group.start_soon(functools.partial(agent.run, "Hi", conversation=conversation))
        await reached.wait()
        group.cancel_scope.cancel()
    assert contents(conversation) == [("user", "Hi"), ("assistant", "I look it up."), ("tool", "sunny in Rome")]
    assert not conversation.running
    result = await agent.run("And now?", conversation=conversation)
    assert result.output == "Still here."
    assert "sunny in Rome" in engine.tokenizer.decode(conversation.token_ids)


async def test_a_conversation_serves_one_run_at_a_time():
    agent = Agent(ScriptedEngine([Say("Hello.", delay_s=0.1), Say("Bye.")]))
    conversation = Conversation()
    async with anyio.create_task_group() as group:
        group.start_soon(functools.partial(agent.run, "Hi", conversation=conversation))
        await anyio.wait_all_tasks_blocked()
        with pytest.raises(InvalidInput, match=f"{conversation.id} is in use"):
            await agent.run("Me too", conversation=conversation)
    assert contents(conversation) == [("user", "Hi"), ("assistant", "Hello.")]
    assert (await agent.run("Bye", conversation=conversation)).output == "Bye."


async def test_two_conversations_on_one_agent_do_not_mix():
    script = [Call("weather", {"city": city}, text=f"I look up {city}.", delay_s=0.02) for city in ("Rome", "Oslo")]
    agent = Agent(ScriptedEngine([*script, Say("Done."), Say("Done.")]), tools=[weather, light])
    cities: dict[str, str] = {}

    async def run(name: str) -> None:
        [call] = (await agent.run(f"I am {name}")).calls
        cities[name] = call.arguments["city"]

    async with anyio.create_task_group() as group:
        group.start_soon(run, "a")
        group.start_soon(run, "b")
    assert sorted(cities.values()) == ["Oslo", "Rome"]


@pytest.mark.parametrize("error", [EngineClosed("gone"), ContextOverflow(prompt_tokens=9, context_tokens=8)])
async def test_what_the_engine_raises_arrives_and_the_next_run_works(error):
    conversation = Conversation()
    agent = Agent(ScriptedEngine([ROME, Fail(error), Say("Back.")]), tools=[weather, light])
    with pytest.raises(type(error)) as caught:
        await agent.run("Hi", conversation=conversation)
    assert caught.value is error
    assert contents(conversation)[-1] == ("tool", "sunny in Rome")
    assert (await agent.run("Again", conversation=conversation)).output == "Back."


async def test_a_script_that_is_over_says_so():
    with pytest.raises(ScriptMismatch, match="after all 1 of the script"):
        await Agent(ScriptedEngine([ROME]), tools=[weather, light]).run("Hi")


@pytest.mark.parametrize(
    ("prompt", "reason"),
    [([], "the conversation is empty"), ([Message(role="assistant", content="x")], "not the assistant's")],
)
async def test_a_run_needs_something_to_answer(prompt, reason):
    conversation = Conversation()
    with pytest.raises(InvalidInput, match=reason):
        await Agent(ScriptedEngine([])).run(prompt, conversation=conversation)
    assert (conversation.messages, conversation.running) == ([], False)


async def test_a_history_with_calls_is_continued():
    history = [Message(role="user", content="Rome?"), *scripted_call("weather", {"city": "Rome"}, "rainy")]
    engine = ScriptedEngine([Say("It rains.")])
    assert (await Agent(engine, tools=[weather]).run(history)).output == "It rains."
    assert "rainy" in engine.tokenizer.decode(engine.requests[0].prompt_ids)


async def test_a_blocking_run_works_inside_a_running_loop():
    assert Agent(ScriptedEngine([HALL, Say("Done.")]), tools=[light]).run_sync("Hi").output == "Done."


def test_a_blocking_run_works_without_a_loop_and_raises_what_a_run_raises():
    agent = Agent(ScriptedEngine([HALL, Say("Done.")]), tools=[light])
    assert agent.run_sync("Hi").output == "Done."
    with pytest.raises(ScriptMismatch):
        agent.run_sync("Hi")


async def test_the_engine_hears_which_tool_a_conversation_waits_for():
    engine = ScriptedEngine([ROME, HALL, Say("Done.")])
    conversation = Conversation()
    await Agent(engine, tools=[weather, light]).run("Both, please.", conversation=conversation)
    assert engine.expected_returns == [(conversation.id, "weather"), (conversation.id, "light")]
