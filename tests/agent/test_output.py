"""Answers that are forms."""

from __future__ import annotations

from typing import Literal

import pytest
from pydantic import BaseModel, model_validator

from agentform.agent.agent import Agent
from agentform.agent.conversation import Conversation
from agentform.decoding.limits import Limits
from agentform.errors import CallRejected, UnsupportedSchema
from agentform.events import ArgumentChosen, ArgumentDelta
from agentform.testing import Call, Fill, Say, ScriptedEngine

pytestmark = pytest.mark.anyio


class Trip(BaseModel):
    """A trip that was asked for."""

    city: Literal["Rome", "Oslo"]
    packed: bool
    note: str

    @model_validator(mode="after")
    def _possible(self) -> Trip:
        if self.note == "impossible":
            raise ValueError("it is possible")
        return self


def weather(city: str) -> str:
    """Says how it is."""
    return f"sunny in {city}"


TRIP = {"city": "Rome", "packed": True, "note": "Take a hat."}


async def test_without_tools_the_answer_is_filled_at_once():
    engine = ScriptedEngine([Fill("To Rome!", TRIP)])
    result = await Agent(engine, output_type=Trip, instructions="Be brief.").run("To Rome!")
    assert result.output == Trip(**TRIP)
    assert [e.pointer for e in result.evidence] == ["/city", "/packed", "/note"]
    assert [e.how for e in result.evidence] == ["scored", "scored", "generated"]
    assert result.messages[-1].content == '{"city": "Rome", "packed": true, "note": "Take a hat."}'
    assert "Be brief.\nA trip that was asked for." in engine.tokenizer.decode(engine.requests[0].prompt_ids)


async def test_after_tools_the_answer_is_filled_with_their_results_in_view():
    engine = ScriptedEngine([Call("weather", {"city": "Rome"}), Say("I know enough."), Fill("sunny in Rome", TRIP)])
    conversation = Conversation()
    result = await Agent(engine, tools=[weather], output_type=Trip).run("To Rome!", conversation=conversation)
    assert (result.output, result.finish) == (Trip(**TRIP), "answer")
    assert len(result.calls) == 1
    assert "sunny in Rome" in engine.tokenizer.decode(engine.requests[-1].prompt_ids)
    assert conversation.messages[-1].role == "assistant"


async def test_a_form_is_watched_like_a_call():
    agent = Agent(ScriptedEngine([Fill("To Rome!", TRIP)]), output_type=Trip)
    async with agent.stream("To Rome!") as run:
        events = [event async for event in run]
    told = [e for e in events if isinstance(e, ArgumentChosen | ArgumentDelta)]
    assert {(e.call_id, e.tool) for e in told} == {("", "")}
    assert "".join(e.text for e in told if isinstance(e, ArgumentDelta)) == '"Take a hat."'


async def test_the_steps_limit_leads_to_the_form_too():
    script = [Call("weather", {"city": "Rome"}), Fill("sunny in Rome", TRIP)]
    agent = Agent(ScriptedEngine(script), tools=[weather], output_type=Trip, limits=Limits(steps=2))
    result = await agent.run("To Rome!")
    assert (result.output, result.finish) == (Trip(**TRIP), "steps")


async def test_a_schema_and_other_types_can_be_forms():
    schema = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}
    result = await Agent(ScriptedEngine([Fill("Hi", {"ok": True})]), output_type=schema).run("Hi")
    assert result.output == {"ok": True}
    assert (await Agent(ScriptedEngine([Say("Hello.")]), output_type=str).run("Hi")).output == "Hello."


async def test_a_form_that_cannot_be_filled_is_an_error_and_leaves_the_conversation_as_it_was():
    conversation = Conversation()
    bad = TRIP | {"note": "impossible"}
    agent = Agent(ScriptedEngine([Fill("To Rome!", bad)]), output_type=Trip)
    with pytest.raises(CallRejected, match="no valid arguments in 3 attempts"):
        await agent.run("To Rome!", conversation=conversation)
    assert conversation.messages == []


def test_what_is_no_type_is_refused():
    with pytest.raises(UnsupportedSchema):
        Agent(ScriptedEngine([]), output_type=object())
