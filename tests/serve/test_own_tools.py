"""Tools that the server runs itself, between the turns of one request."""

from __future__ import annotations

import json
import shlex
import sys
from typing import Literal

import httpx
import pytest
from openai import OpenAI

from agentform import tool
from agentform.cli.mcp_tools import connected
from agentform.testing import Call, Say, ScriptedEngine
from agentform.tools.toolset import Toolbox
from tests.support.servers import running

DARK = [{"role": "user", "content": "It is dark in the office."}]
LOOK = Call("look", {"room": "office"}, text="I look first.")
LIGHT = Call("light", {"room": "office"}, text="I switch it on.")
DONE = Say("It is on.")


@tool
def look(room: Literal["kitchen", "office"]) -> str:
    """See whether there is light in a room."""
    return f"The {room} is dark."


@tool
def fail() -> str:
    """Fails."""
    raise RuntimeError("no bulb")


def definition(name):
    schema = {"type": "object", "properties": {"room": {"enum": ["kitchen", "office"]}}, "required": ["room"]}
    return {"type": "function", "function": {"name": name, "parameters": schema}}


def served(*script, tools=(look,), **settings):
    return running(ScriptedEngine(list(script)), tools=Toolbox(tools), **settings)


def ask(server, **fields):
    body = {"model": "scripted", "messages": DARK, "agentform": {"evidence": True}} | fields
    reply = httpx.post(f"{server.url}/v1/chat/completions", json=body, timeout=60)
    assert reply.status_code == 200, reply.text
    return reply


def test_a_tool_of_the_servers_is_run_and_what_it_returned_is_answered_from(caplog):
    caplog.set_level("INFO")
    with served(LOOK, DONE) as server:
        reply = ask(server)
        prompts = [server.service.engine.tokenizer.decode(r.prompt_ids) for r in server.service.engine.requests]
    choice = reply.json()["choices"][0]
    assert (choice["message"]["content"], choice["finish_reason"]) == ("It is on.", "stop")
    assert not choice["message"].get("tool_calls")
    assert reply.headers["x-agentform-ran"] == "look"
    assert any("ran=look" in record.getMessage() for record in caplog.records)
    [ran] = choice["message"]["agentform"]["ran"]
    assert (ran["name"], ran["input"]) == ("look", {"room": "office"})
    assert ran["result"] == {"content": "The office is dark.", "is_error": False}
    assert ran["arguments"][0]["how"] == "scored"
    assert any("The office is dark." in prompt for prompt in prompts)
    assert reply.json()["usage"]["completion_tokens"] >= len("I look first.") + len("It is on.")


@pytest.mark.parametrize("wire", ["chat", "responses", "messages"])
def test_a_stream_shows_the_answer_alone_in_every_api(wire):
    path = {"chat": "chat/completions"}.get(wire, wire)
    said = {"input": DARK} if wire == "responses" else {"messages": DARK}
    with served(LOOK, DONE) as server:
        body = {"model": "scripted", "stream": True, "max_tokens": 400, **said}
        if wire == "responses":
            del body["max_tokens"]
        reply = httpx.post(f"{server.url}/v1/{path}", json=body, timeout=60)
    assert reply.status_code == 200, reply.text
    assert "I look first" not in reply.text
    assert '"look"' not in reply.text
    assert "It is on." in _text(reply.text)


def _text(stream: str) -> str:
    """The deltas of an answer's text, whichever API they are of."""
    events = [json.loads(line[6:]) for line in stream.splitlines() if line.startswith("data: {")]
    found = ""
    for event in events:
        delta = event.get("delta")
        for choice in event.get("choices") or ():
            found += choice["delta"].get("content") or ""
        found += delta if isinstance(delta, str) else (delta or {}).get("text", "")
    return found


def test_a_call_of_the_clients_own_tools_ends_the_loop_and_is_for_the_client_to_run():
    with served(LOOK, LIGHT) as server:
        reply = ask(server, tools=[definition("light")])
    message = reply.json()["choices"][0]["message"]
    assert [call["function"]["name"] for call in message["tool_calls"]] == ["light"]
    assert reply.headers["x-agentform-ran"] == "look"


def test_a_clients_tool_of_the_same_name_stays_the_clients():
    with served(LOOK) as server:
        reply = ask(server, tools=[definition("look")])
    assert reply.json()["choices"][0]["message"]["tool_calls"][0]["function"]["name"] == "look"
    assert "x-agentform-ran" not in reply.headers


@pytest.mark.parametrize("fields", [{"tool_choice": "none"}, {"n": 2}])
def test_who_says_what_may_be_called_or_wants_several_answers_gets_none_of_them(fields):
    with served(DONE, DONE) as server:
        reply = ask(server, **fields)
        prompts = [server.service.engine.tokenizer.decode(r.prompt_ids) for r in server.service.engine.requests]
    assert "x-agentform-ran" not in reply.headers
    assert not any("See whether there is light" in prompt for prompt in prompts)


def test_a_tool_that_fails_is_told_to_the_model_and_calls_have_an_end():
    broken = Call("fail", {}, text="I try.")
    with served(broken, DONE, tools=(fail,)) as server:
        reply = ask(server)
    [ran] = reply.json()["choices"][0]["message"]["agentform"]["ran"]
    assert ran["result"]["is_error"]
    assert "no bulb" in ran["result"]["content"]
    other = Call("look", {"room": "kitchen"}, text="And there.")
    with served(LOOK, other, DONE, own_calls=2) as server:
        reply = ask(server)
    assert reply.headers["x-agentform-ran"] == "look, look"
    assert reply.json()["choices"][0]["message"]["content"] == "It is on."


def test_openais_client_sees_a_plain_answer():
    with served(LOOK, DONE) as server:
        client = OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0)
        said = client.chat.completions.create(model="scripted", messages=DARK)
    assert said.choices[0].message.content == "It is on."


DESK = """
from mcp.server.mcpserver import MCPServer

server = MCPServer("desk", log_level="CRITICAL")

@server.tool()
def order_status(number: int) -> str:
    return f"Order {number} arrives tomorrow."

server.run("stdio")
"""


def test_tools_of_an_mcp_server_are_run_as_serve_with_mcp_connects_them(tmp_path):
    (tmp_path / "desk.py").write_text(DESK)
    command = shlex.join([sys.executable, str(tmp_path / "desk.py")])
    script = [Call("order_status", {"number": 7}, text="I look."), Say("It arrives tomorrow.")]
    with connected([command]) as tools, running(ScriptedEngine(script), tools=tools) as server:
        message = ask(server).json()["choices"][0]["message"]
    assert message["content"] == "It arrives tomorrow."
    assert message["agentform"]["ran"][0]["result"] == {"content": "Order 7 arrives tomorrow.", "is_error": False}
