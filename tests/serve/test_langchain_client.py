"""LangChain's ChatOpenAI and OpenAIDecisions against a real server."""

from __future__ import annotations

from typing import Literal

import pytest
from langchain.agents import create_agent
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from pydantic import BaseModel

from agentform.testing import Call, Fill, Say, ScriptedEngine
from tests.support.servers import running

DARK = "It is dark in the office."
SWITCH = Call("light", {"room": "office", "on": True}, text="I switch it on.")


@tool
def light(room: Literal["kitchen", "office"], on: bool) -> str:
    """Switch the light in a room."""
    return f"The light in the {room} is {'on' if on else 'off'}."


class Mood(BaseModel):
    """How somebody feels."""

    mood: Literal["good", "bad"]
    why: str


def chat(server, **options) -> ChatOpenAI:
    return ChatOpenAI(base_url=server.url + "/v1", api_key="none", model="scripted", max_retries=0, **options)


def test_invoke_has_text_and_usage():
    with running(ScriptedEngine([Say("Hello there.")])) as server:
        said = chat(server).invoke(DARK)
    assert said.content == "Hello there."
    assert said.usage_metadata["output_tokens"] == 13
    assert said.usage_metadata["input_token_details"]["cache_read"] == 0


def test_a_stream_adds_up_to_the_answer_and_its_usage():
    with running(ScriptedEngine([Say("Hello there."), SWITCH])) as server:
        chunks = list(chat(server, stream_usage=True).stream(DARK))
        total = chunks[0]
        for chunk in chunks[1:]:
            total += chunk
        called = None
        for chunk in chat(server).bind_tools([light]).stream(DARK):
            called = chunk if called is None else called + chunk
    assert (total.content, total.usage_metadata["output_tokens"]) == ("Hello there.", 13)
    assert [(call["name"], call["args"]) for call in called.tool_calls] == [("light", {"room": "office", "on": True})]
    assert called.content == ""  # what was said before the call is reasoning, which ChatOpenAI does not show


@pytest.mark.parametrize("choice", [None, "any", "light"])
def test_bound_tools_are_called(choice):
    step = SWITCH if choice != "light" else Call("light", {"room": "office", "on": True})
    with running(ScriptedEngine([step])) as server:
        said = chat(server).bind_tools([light], tool_choice=choice).invoke(DARK)
    assert [(call["name"], call["args"]) for call in said.tool_calls] == [("light", {"room": "office", "on": True})]
    assert said.invalid_tool_calls == []


@pytest.mark.parametrize("method", ["json_schema", "function_calling", "json_mode"])
def test_structured_output_in_every_method(method):
    value = {"mood": "bad", "why": "dark"}
    step = Call("Mood", value) if method == "function_calling" else Fill(DARK, value)
    with running(ScriptedEngine([step])) as server:
        found = chat(server).with_structured_output(Mood, method=method).invoke(DARK)
    assert found == Mood(mood="bad", why="dark")


def test_an_agent_calls_its_tool_and_answers():
    engine = ScriptedEngine([SWITCH, Say("It is on.")])
    with running(engine) as server:
        agent = create_agent(chat(server), [light], system_prompt="Be brief.")
        messages = agent.invoke({"messages": [HumanMessage(DARK)]})["messages"]
    [result] = [message for message in messages if isinstance(message, ToolMessage)]
    assert (result.content, messages[-1].content) == ("The light in the office is on.", "It is on.")
    assert engine.num_turns_left == 0


@pytest.mark.anyio
async def test_async_streaming_works_too():
    with running(ScriptedEngine([Say("Hello there.")])) as server:
        assert "".join([chunk.content async for chunk in chat(server).astream(DARK)]) == "Hello there."
