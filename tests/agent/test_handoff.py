"""Conversations that go over to another agent, and agents inside tools."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import anyio
import pytest

from agentform.agent.agent import Agent
from agentform.agent.conversation import Conversation
from agentform.agent.observer import ToolObserved, TurnObserved
from agentform.decoding.limits import Limits
from agentform.errors import DeadlineExceeded, DuplicateTool, EngineClosed, InvalidToolName
from agentform.events import HandedOff
from agentform.testing import Call, Fail, Say, ScriptedEngine
from agentform.tools.context import RunContext
from agentform.tools.tool import tool
from tests.support.waiting import PATIENCE_S

pytestmark = pytest.mark.anyio


def weather(city: str) -> str:
    """Says how it is."""
    return f"sunny in {city}"


def refund(order: str) -> str:
    """Pays back."""
    return f"{order} is paid back"


def desk(engine, **options):
    billing = Agent(engine, tools=[refund], name="billing", description="For money.", instructions="You do billing.")
    return Agent(
        engine, tools=[weather], name="triage", instructions="You listen.", handoffs=[billing], **options
    ), billing


async def test_a_conversation_goes_on_under_the_other_agents_instructions_and_tools():
    engine = ScriptedEngine(
        [Call("transfer_to_billing", text="Not mine."), Call("refund", {"order": "7"}), Say("It is paid back.")]
    )
    triage, billing = desk(engine)
    async with triage.stream("I want my money back") as run:
        events = [event async for event in run]
    result = run.result
    assert result.agent is billing
    assert result.output == "It is paid back."
    assert [m.content for m in result.messages if m.role == "tool"] == ["billing takes over.", "7 is paid back"]
    assert [event.agent for event in events if isinstance(event, HandedOff)] == ["billing"]
    first, last = (engine.tokenizer.decode(engine.requests[at].prompt_ids) for at in (0, -1))
    assert "You listen." in first
    assert "transfer_to_billing: Hand the conversation over to billing. For money." in first
    assert "You do billing." in last
    assert "You listen." not in last
    assert "Not mine." in last


async def test_the_other_agent_goes_on_in_the_next_run():
    engine = ScriptedEngine([Call("transfer_to_billing"), Say("Hello."), Say("Again.")])
    triage, billing = desk(engine)
    result = await triage.run("Money!")
    again = await result.agent.run("Hm?", conversation=result.conversation)
    assert (again.output, again.agent) == ("Again.", billing)


async def test_agents_that_hand_over_to_each_other_stop_at_the_limit():
    engine = ScriptedEngine([*[Call("transfer_to_b"), Call("transfer_to_a")] * 2, Say("Enough.")])
    a, b = (Agent(engine, name=name, tools=[weather]) for name in "ab")
    a.hand_off_to(b)
    b.hand_off_to(a)
    result = await a.run("Hi", limits=Limits(handoffs=4, same_call=9))
    assert (result.output, len(result.calls), result.agent) == ("Enough.", 4, a)
    names = [dict(a.handoffs), dict(b.handoffs)]
    assert names == [{"transfer_to_b": b}, {"transfer_to_a": a}]


async def test_without_tools_nothing_is_offered_at_the_limit():
    engine = ScriptedEngine([Call("transfer_to_b"), Say("Enough.")])
    a, b = Agent(engine, name="a"), Agent(engine, name="b")
    a.hand_off_to(b)
    b.hand_off_to(a)
    assert (await a.run("Hi", limits=Limits(handoffs=1))).output == "Enough."


async def test_agents_on_different_engines_hand_over_and_usage_adds_up():
    first, second = ScriptedEngine([Call("transfer_to_b", text="Go.")]), ScriptedEngine([Say("Here.")])
    b = Agent(second, name="b")
    result = await Agent(first, name="a", handoffs=[b]).run("Hi")
    assert result.output == "Here."
    assert result.usage.completion_tokens == len("Go.") + 1 + len("Here.") + 1
    assert (first.num_turns_left, second.num_turns_left) == (0, 0)


async def test_a_handoff_among_other_calls_comes_after_them_and_a_second_is_refused():
    engine = ScriptedEngine([])
    c = Agent(engine, name="c")
    triage, billing = desk(engine)
    triage.hand_off_to(c)
    call = Call("transfer_to_billing", also=[Call("weather", {"city": "Rome"}), Call("transfer_to_c")])
    triage.engine = triage.caller.engine = billing.engine = billing.caller.engine = ScriptedEngine([call, Say("Yes.")])
    result = await triage.run("Hi", limits=Limits(parallel_calls=3))
    assert [m.content for m in result.messages if m.role == "tool"] == [
        "billing takes over.",
        "sunny in Rome",
        "Error: billing takes over already",
    ]
    assert result.agent is billing


def test_names_that_cannot_be_told_apart_are_refused():
    engine = ScriptedEngine([])
    one, other = Agent(engine, name="b"), Agent(engine, name="b")
    with pytest.raises(DuplicateTool, match="'transfer_to_b', which is taken"):
        Agent(engine, handoffs=[one, other])
    with pytest.raises(InvalidToolName):
        Agent(engine, handoffs=[Agent(engine, name="two words")])
    with pytest.raises(InvalidToolName):
        Agent(engine, name="two words").as_tool()


class Recorder:
    content = False

    def __init__(self) -> None:
        self.seen: list[Any] = []

    @contextmanager
    def observe(self, operation: Any) -> Iterator[Any]:
        self.seen.append(operation)
        yield lambda done: None


async def test_an_agent_inside_a_tool_answers_in_a_conversation_of_its_own():
    inner = ScriptedEngine([Call("weather", {"city": "Rome"}), Say("Sunny, it says.")])
    guide = Agent(inner, tools=[weather], name="guide", description="Knows the weather.")
    outer = ScriptedEngine([Call("guide", {"request": "How is Rome?"}), Say("Sunny.")])
    recorder = Recorder()
    result = await Agent(outer, tools=[guide.as_tool()], name="host", observers=[recorder]).run("Rome?")
    assert result.output == "Sunny."
    assert result.messages[2].content == "Sunny, it says."
    assert "How is Rome?" in inner.tokenizer.decode(inner.requests[0].prompt_ids)
    assert "Rome?<" not in inner.tokenizer.decode(inner.requests[0].prompt_ids).replace("How is Rome?", "")
    alone = await Agent(
        ScriptedEngine([Call("weather", {"city": "Rome"}), Say("Sunny, it says.")]), tools=[weather]
    ).run("How is Rome?")
    own = len('"How is Rome?"') + 1 + len("Sunny.") + 1
    assert result.usage.completion_tokens == own + alone.usage.completion_tokens
    turns = [o.agent for o in recorder.seen if isinstance(o, TurnObserved)]
    assert turns == ["host", "guide", "guide", "host"]
    assert [o.tool for o in recorder.seen if isinstance(o, ToolObserved)] == ["guide", "weather"]


async def test_context_and_approval_pass_down():
    asked = []

    def whoami(run: RunContext[str]) -> str:
        """Says who asks."""
        return run.context

    inner = Agent(ScriptedEngine([Call("whoami"), Say("It is Ada.")]), tools=[whoami], name="inner")
    outer = Agent(
        ScriptedEngine([Call("inner", {"request": "Who?"}), Say("Ada.")]),
        tools=[inner.as_tool()],
        approve=lambda call: not asked.append(call.name),
    )
    result = await outer.run("Who am I?", context="Ada")
    assert asked == ["inner", "whoami"]
    assert result.messages[2].content == "It is Ada."


async def test_cancellation_and_deadline_pass_down_and_usage_is_kept():
    stopped = anyio.Event()

    async def wait() -> None:
        """Waits for ever."""
        try:
            await anyio.sleep_forever()
        finally:
            stopped.set()

    inner = Agent(ScriptedEngine([Call("wait", text="Hm.")]), tools=[wait], name="inner")
    outer = Agent(ScriptedEngine([Call("inner", {"request": "Wait"})]), tools=[inner.as_tool()])
    with anyio.fail_after(PATIENCE_S), pytest.raises(DeadlineExceeded, match=r"within 3\S* s"):
        await outer.run("Hi", limits=Limits(deadline_s=3))
    assert stopped.is_set()


async def test_an_agent_that_fails_is_a_tool_that_fails_and_what_it_used_counts():
    engine = ScriptedEngine([Call("weather", {"city": "Rome"}, text="Hm."), Fail(EngineClosed("gone"))])
    inner = Agent(engine, tools=[weather], name="inner")
    outer = Agent(ScriptedEngine([Call("inner", {"request": "x"}), Say("Sorry.")]), tools=[inner.as_tool()])
    result = await outer.run("Hi")
    assert result.messages[2].content == "Error: EngineClosed: gone"
    inside = len("Hm.") + 1 + len('"Rome"')
    assert result.usage.completion_tokens == inside + len('"x"') + 1 + len("Sorry.") + 1


async def test_its_own_limits_hold_inside():
    inner = Agent(ScriptedEngine([Call("weather", {"city": "Rome"}), Say("Short.")]), tools=[weather], name="inner")
    outer = Agent(
        ScriptedEngine([Call("brief", {"request": "x"}), Say("Done.")]),
        tools=[inner.as_tool("brief", "Answers briefly.", limits=Limits(steps=2, answer_tokens=3))],
    )
    result = await outer.run("Hi", conversation=Conversation())
    assert result.messages[2].content == "Sho"


def asked_by(names, who, answer=True):
    def approve(call):
        names.append((who, call.name))
        return answer

    return approve


@tool
def wipe() -> str:
    """Deletes everything."""
    return "wiped"


@pytest.mark.anyio
@pytest.mark.parametrize("denier", ["first", "second", None])
async def test_after_a_handoff_everyone_on_the_way_is_asked_and_the_strictest_holds(denier):
    asked = []
    engine = ScriptedEngine([Call("transfer_to_second", {}), Call("wipe", {}), Say("Done.")])

    def approver(who):
        def approve(call):
            asked.append((who, call.name))
            return call.name != "wipe" or who != denier

        return approve

    second = Agent(engine, name="second", tools=[wipe], approve=approver("second"))
    first = Agent(engine, name="first", handoffs=[second], approve=approver("first"))
    result = await first.run("Go")
    wiped = next(message for message in result.messages if message.result and message.result.name == "wipe")
    assert wiped.content == ("Denied" if denier else "wiped")
    assert asked[:2] == [("first", "transfer_to_second"), ("first", "wipe")]
    assert (("second", "wipe") in asked) == (denier != "first")


@pytest.mark.anyio
async def test_a_handoff_can_be_denied():
    asked = []
    engine = ScriptedEngine([Call("transfer_to_second", {}), Say("I stay.")])
    second = Agent(engine, name="second")
    result = await Agent(engine, name="first", handoffs=[second], approve=asked_by(asked, "first", False)).run("Go")
    assert asked == [("first", "transfer_to_second")]
    assert result.agent.name == "first"
    assert result.messages[2].content == "Denied"


@pytest.mark.anyio
@pytest.mark.parametrize("denier", ["above", "below"])
async def test_an_agent_inside_a_tool_asks_those_above_it_and_its_own(denier):
    engine = ScriptedEngine([Call("below", {"request": "Go"}), Call("wipe", {}), Say("Done."), Say("Done.")])
    below = Agent(engine, name="below", tools=[wipe], approve=lambda call: denier != "below")
    above = Agent(engine, tools=[below.as_tool()], approve=lambda call: call.name != "wipe" or denier != "above")
    await above.run("Go")
    assert "Denied" in "".join(engine.tokenizer.decode(request.prompt_ids) for request in engine.requests)
