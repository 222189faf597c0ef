"""The demo model behind a real server: other people's clients, valid calls, a warm cache."""

from __future__ import annotations

import json
from typing import Annotated, Literal

import anyio
import openai
import pytest
from langchain.agents import create_agent
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from pydantic import BaseModel, Field

from tests.support.engines import settled
from tests.support.servers import running
from tests.support.watched_engine import WatchedEngine

pytestmark = pytest.mark.model

USER = [{"role": "user", "content": "Please switch on the light in the office."}]
PARAMETERS = {
    "type": "object",
    "properties": {
        "room": {"enum": ["kitchen", "office"]},
        "on": {"type": "boolean"},
        "note": {"type": "string", "maxLength": 12},
    },
    "required": ["room", "on", "note"],
    "additionalProperties": False,
}
LIGHT = {
    "type": "function",
    "function": {"name": "light", "description": "Switch a light.", "parameters": PARAMETERS, "strict": True},
}


class Ticket(BaseModel):
    """What a customer wants."""

    category: Literal["billing", "delivery", "technical"]
    urgent: bool
    summary: Annotated[str, Field(max_length=20)]


@pytest.fixture(scope="module")
def server(demo_engine):
    with running(WatchedEngine(demo_engine), served_name="smollm2", max_tokens=48) as each:
        yield each


@pytest.fixture
def client(server):
    with openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0) as each:
        yield each


def test_a_long_prompt_is_cached_the_second_time(client):
    said = [{"role": "system", "content": "Answer in one word. " * 20}, *USER]
    options = {"model": "smollm2", "messages": said, "max_tokens": 8}
    first, second = (client.chat.completions.create(**options) for _ in range(2))
    assert first.choices[0].message.content == second.choices[0].message.content
    assert second.usage.prompt_tokens_details.cached_tokens == second.usage.prompt_tokens - 1


@pytest.mark.parametrize("choice", ["auto", {"type": "function", "function": {"name": "light"}}])
def test_every_call_is_valid_whole_or_streamed(client, choice):
    options = {"model": "smollm2", "messages": USER, "tools": [LIGHT], "tool_choice": choice, "max_tokens": 64}
    whole = client.chat.completions.create(**options, reasoning_effort="minimal").choices[0]
    with client.chat.completions.stream(**options, reasoning_effort="minimal") as stream:
        streamed = stream.get_final_completion().choices[0]
    assert (streamed.finish_reason, streamed.message.content) == (whole.finish_reason, whole.message.content)
    for choice_made in (whole, streamed):
        for call in choice_made.message.tool_calls or ():
            arguments = json.loads(call.function.arguments)
            assert set(arguments) == {"room", "on", "note"}
            assert arguments["room"] in ("kitchen", "office")
    if choice != "auto":
        assert whole.finish_reason in ("tool_calls", "length")


def test_a_structured_answer_is_parsed_with_tools_beside_it(client):
    parsed = client.chat.completions.parse(
        model="smollm2", messages=USER, response_format=Ticket, max_tokens=64, tools=[LIGHT], tool_choice="none"
    )
    assert isinstance(parsed.choices[0].message.parsed, Ticket)


def test_decisions_are_probabilities(client, server):
    questions = [
        {"type": "predicate", "name": "urgent", "instructions": "Is it urgent?"},
        {"type": "choice", "instructions": "About what?", "choices": [{"value": "light"}, {"value": "parcel"}]},
    ]
    done = client.decisions.create(model="smollm2", input=USER, questions=questions)
    assert 0 <= done.answers[0].probability <= 1
    assert sum(row.probability for row in done.answers[1].probabilities) == pytest.approx(1)
    assert done.usage.output_tokens == 0


def test_a_langchain_agent_runs_to_its_end(server):
    calls = []

    @tool
    def switch(room: Literal["kitchen", "office"], on: bool) -> str:
        """Switch the light in a room."""
        calls.append((room, on))
        return "Done."

    model = ChatOpenAI(
        base_url=server.url + "/v1",
        api_key="none",
        model="smollm2",
        max_retries=0,
        max_tokens=24,
        reasoning_effort="minimal",
    )
    agent = create_agent(model, [switch])
    config = {"recursion_limit": 5}
    try:
        messages = agent.invoke({"messages": USER}, config)["messages"]
    except RecursionError:  # a model of this size may call for ever; every call was valid all the same
        assert calls
    else:
        assert messages[-1].type == "ai"
    assert all(room in ("kitchen", "office") and isinstance(on, bool) for room, on in calls)


def test_a_client_that_leaves_frees_what_its_request_held(client, demo_engine, server):
    stream = client.chat.completions.create(model="smollm2", messages=USER, max_tokens=4000, stream=True)
    next(iter(stream))
    stream.close()
    server.settled()
    anyio.run(settled, demo_engine)
