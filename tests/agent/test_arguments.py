"""Arguments that are refused: solved together, written again, or given up with all that was tried."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import pytest
from pydantic import BaseModel, model_validator

from agentform.agent.agent import Agent
from agentform.agent.conversation import Conversation
from agentform.decoding.limits import Limits
from agentform.errors import Abstained, ArgumentsTruncated, CallRejected
from agentform.schema.target import load
from agentform.testing import Call, Say, ScriptedEngine
from agentform.tools.tool import tool

pytestmark = pytest.mark.anyio


def light(room: Literal["hall", "kitchen"], on: bool) -> str:
    """Switches a light."""
    return room


def ping() -> str:
    """Says pong."""
    return "pong"


HALL = Call("light", {"room": "hall", "on": True}, text="I switch it on.")


async def test_a_free_argument_beyond_its_budget_is_no_call():
    ran = []

    def note(text: str) -> None:
        """Notes it."""
        ran.append(text)

    conversation = Conversation()
    agent = Agent(ScriptedEngine([Call("note", {"text": "x" * 50})]), tools=[note])
    with pytest.raises(ArgumentsTruncated, match="'/text' was not complete after 20 tokens"):
        await agent.run("Hi", conversation=conversation, limits=Limits(argument_tokens=20))
    assert (ran, conversation.messages) == ([], [])


@pytest.mark.parametrize("limits", [Limits(min_probability=0.5), Limits(min_legal_mass=0.9)])
async def test_a_choice_that_the_model_is_not_sure_of_is_an_abstention(limits):
    engine = ScriptedEngine([HALL], probability=0.35, legal_mass=0.8)
    with pytest.raises(Abstained, match="is below the limit") as caught:
        await Agent(engine, tools=[light, ping], limits=limits).run("Hi")
    assert caught.value.evidence[0].value == "light"


class Span(BaseModel):
    start: Literal["mon", "tue", "wed"]
    end: Literal["mon", "tue", "wed"]

    @model_validator(mode="after")
    def _in_order(self) -> Span:
        if self.start == self.end:
            raise ValueError("start and end differ")
        return self


async def test_arguments_that_contradict_one_another_are_solved_together():
    def book(span: Span) -> str:
        """Books days."""
        return f"{span.start}-{span.end}"

    script = [Call("book", {"span": {"start": "tue", "end": "tue"}}), Say("Done.")]
    result = await Agent(ScriptedEngine(script), tools=[book, light]).run("Hi")
    [call] = result.calls
    span = call.arguments["span"]
    assert "tue" in span.values()
    assert span["start"] != span["end"]
    [moved] = [e for e in call.evidence if e.how == "joint"]
    assert moved.gap > 0
    assert moved.probability < 0.5
    assert result.messages[2].content == f"{span['start']}-{span['end']}"


async def test_a_refused_free_argument_is_written_again_with_the_reason_in_view():
    def day(date: str) -> str:
        """Books a day."""
        return date

    schema = {"type": "object", "properties": {"date": {"type": "string", "format": "date"}}, "required": ["date"]}
    made = replace(tool(day), target=load(schema, name="day"))
    script = [Call("day", {"date": "2024-02-30"}, repairs=[{"date": "2024-02-29"}]), Say("Done.")]
    engine = ScriptedEngine(script)
    result = await Agent(engine, tools=[made, light]).run("Hi")
    [call] = result.calls
    assert call.arguments == {"date": "2024-02-29"}
    assert call.evidence[0].how == "repaired"
    seen = [engine.tokenizer.decode(r.prompt_ids) for r in engine.requests]
    assert any("2024-02-30" in text and "Invalid: /date" in text for text in seen)
    assert not any("2024-02-30" in m.content for m in result.messages)


async def test_a_rejected_call_carries_every_attempt():
    def book(n: int) -> int:
        """Books."""
        return n

    schema = {"type": "object", "properties": {"n": {"type": "integer", "not": {"minimum": 5}}}, "required": ["n"]}
    made = replace(tool(book), target=load(schema, name="book"))
    script = [Call("book", {"n": 5}, repairs=[{"n": 6}, {"n": 7}])]
    with pytest.raises(CallRejected, match="no valid arguments in 3 attempts") as caught:
        await Agent(ScriptedEngine(script), tools=[made]).run("Hi")
    assert [a.arguments for a in caught.value.attempts] == [{"n": 5}, {"n": 6}, {"n": 7}]
    assert {v.pointer for a in caught.value.attempts for v in a.violations} == {"/n"}
