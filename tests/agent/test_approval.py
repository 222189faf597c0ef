"""A human's word before each call: allowed, denied, changed."""

from __future__ import annotations

import threading
from typing import Literal

import anyio
import anyio.lowlevel
import pytest

from agentform.agent.agent import Agent
from agentform.agent.approval import Allow, Deny
from agentform.agent.conversation import Conversation
from agentform.decoding.limits import Limits
from agentform.errors import DeadlineExceeded, InvalidInput
from agentform.events import CallReady, ToolFinished, ToolStarted
from agentform.testing import Call, Say, ScriptedEngine
from agentform.tools.tool import tool
from tests.support.waiting import PATIENCE_S

pytestmark = pytest.mark.anyio
KITCHEN = Call("light", {"room": "kitchen", "on": True})


class House:
    def __init__(self) -> None:
        self.switched = []

    def light(self, room: Literal["hall", "kitchen"], on: bool) -> str:
        """Switches a light."""
        self.switched.append((room, on))
        return f"{room} is {'on' if on else 'off'}"


def agent_of(house, approve, *script, **options):
    return Agent(ScriptedEngine(script or [KITCHEN, Say("Done.")]), tools=[house.light], approve=approve, **options)


@pytest.mark.parametrize("approval", [True, Allow()])
async def test_an_allowed_call_is_run(approval):
    house, asked = House(), []

    async def approve(call):
        asked.append((call.name, call.arguments))
        return approval

    result = await agent_of(house, approve).run("On!")
    assert asked == [("light", {"room": "kitchen", "on": True})]
    assert house.switched == [("kitchen", True)]
    assert result.messages[2].content == "kitchen is on"


@pytest.mark.parametrize(("approval", "told"), [(False, "Denied"), (Deny("it is night"), "Denied: it is night")])
async def test_a_denied_call_is_not_run_and_the_model_is_told(approval, told):
    house = House()
    agent = agent_of(house, lambda call: approval)
    async with agent.stream("On!") as run:
        kinds = [type(event) async for event in run]
    message = run.result.messages[2]
    assert house.switched == []
    assert (message.content, message.result.is_error) == (told, True)
    assert ToolStarted not in kinds
    assert ToolFinished in kinds
    assert run.result.output == "Done."


async def test_a_changed_call_is_run_and_remembered_as_changed():
    house = House()
    engine = ScriptedEngine([KITCHEN, Say("Done.")])
    agent = Agent(engine, tools=[house.light], approve=lambda call: Allow({"room": "hall", "on": False}))
    result = await agent.run("On!")
    assert house.switched == [("hall", False)]
    [call] = result.calls
    assert (call.arguments, call.evidence) == ({"room": "hall", "on": False}, ())
    assert result.messages[1].calls == (call,)
    last_prompt = engine.tokenizer.decode(engine.requests[-1].prompt_ids)
    assert '"arguments": {"room": "hall", "on": false}' in last_prompt
    assert "kitchen" not in last_prompt.partition("On!")[2]


async def test_a_change_that_the_schema_refuses_is_an_error_of_the_humans_and_nothing_is_run():
    house, conversation = House(), Conversation()
    agent = agent_of(house, lambda call: Allow({"room": "attic", "on": True}))
    with pytest.raises(InvalidInput, match="edited arguments of 'light' are not valid: /room"):
        await agent.run("On!", conversation=conversation)
    assert (house.switched, conversation.messages) == ([], [])


async def test_what_is_no_approval_is_refused():
    with pytest.raises(InvalidInput, match="approve returned None"):
        await agent_of(House(), lambda call: None).run("On!")


async def test_a_plain_function_may_block_and_is_asked_in_a_thread():
    asked_in = []

    def approve(call):
        asked_in.append(threading.current_thread())
        return True

    await agent_of(House(), approve).run("On!")
    assert asked_in != [threading.current_thread()]


async def test_calls_of_one_turn_are_asked_about_one_after_the_other():
    house, log = House(), []

    async def approve(call):
        log.append("asked")
        await anyio.lowlevel.checkpoint()
        log.append("answered")
        return call.arguments["room"] == "hall" or Deny("not there")

    script = Call("light", {"room": "kitchen", "on": True}, also=[Call("light", {"room": "hall", "on": True})])
    agent = agent_of(house, approve, script, Say("Done."), limits=Limits(parallel_calls=2))
    result = await agent.run("On!")
    assert log == ["asked", "answered"] * 2
    assert house.switched == [("hall", True)]
    assert [m.content for m in result.messages if m.role == "tool"] == ["Denied: not there", "hall is on"]


async def test_one_run_may_have_an_approval_of_its_own():
    house = House()
    await agent_of(house, lambda call: True).run("On!", approve=lambda call: False)
    assert house.switched == []


async def test_the_deadline_counts_the_humans_time_too():
    async def approve(call):
        await anyio.sleep_forever()

    with anyio.fail_after(PATIENCE_S), pytest.raises(DeadlineExceeded):
        await agent_of(House(), approve).run("On!", limits=Limits(deadline_s=0.2))


async def test_a_call_that_was_changed_counts_as_asked_for_again():
    house = House()
    agent = agent_of(house, lambda call: Allow({"room": "hall", "on": False}), *[KITCHEN] * 3, Say("Done."))
    result = await agent.run("On!")
    assert (result.finish, len(house.switched)) == ("repetition", 2)


@pytest.mark.anyio
async def test_what_is_done_to_the_arguments_after_they_were_approved_changes_nothing_of_what_runs():
    held, ran = [], []

    @tool
    def pay(amount: int) -> str:
        """Pays."""
        ran.append(amount)
        return "paid"

    def approve(call):
        held.append(call)
        call.arguments["amount"] = 10**6
        return True

    async def meddle(event):
        if isinstance(event, (CallReady, ToolStarted)):
            event.call.arguments["amount"] = 10**6

    engine = ScriptedEngine([Call("pay", {"amount": 5}), Say("Done.")])
    async with Agent(engine, tools=[pay], approve=approve).stream("Pay.") as run:
        async for event in run:
            await meddle(event)
    assert ran == [5]
    assert run.result.calls[0].arguments == {"amount": 5}
    assert run.result.messages[1].calls[0].arguments == {"amount": 5}


@pytest.mark.anyio
async def test_an_edit_is_frozen_too_and_is_what_is_told():
    given = {"amount": 7}
    ran = []

    @tool
    def pay(amount: int) -> str:
        """Pays."""
        ran.append(amount)
        return "paid"

    async def approve(call):
        return Allow(given)

    engine = ScriptedEngine([Call("pay", {"amount": 5}), Say("Done.")])
    async with Agent(engine, tools=[pay], approve=approve).stream("Pay.") as run:
        async for event in run:
            given["amount"] = 7 if isinstance(event, CallReady) else 10**6
    assert ran == [7]
    assert run.result.calls[0].arguments == {"amount": 7}
    assert run.result.calls[0].evidence == ()
