"""Whatever is sent, the answer is a typed error that names the fault, or the request is understood."""

from __future__ import annotations

import copy
import json

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentform.errors import AgentformError
from agentform.serve.app import Service
from agentform.serve.chat_fields import ChatFields
from agentform.serve.chat_request import chat_request
from agentform.serve.decision_fields import DecisionFields
from agentform.serve.parsing import parse
from agentform.serve.problems import Refused, problem_of
from agentform.serve.settings import ServerSettings
from agentform.serve.systemone_fields import SystemOneFields
from agentform.serve.turn_request import toolbox_of, tools_key
from agentform.testing import ScriptedEngine

TOOL = {
    "type": "function",
    "function": {
        "name": "f",
        "description": "d",
        "parameters": {"type": "object", "properties": {"a": {"enum": [1, 2]}}},
    },
}
CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
CHAT = {
    "model": "scripted",
    "messages": [
        {"role": "system", "content": "s"},
        {"role": "user", "content": [{"type": "text", "text": "u"}]},
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "c", "content": "r"},
    ],
    "tools": [TOOL],
    "tool_choice": {"type": "function", "function": {"name": "f"}},
    "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}}},
    "stop": ["x"],
    "stream": True,
    "stream_options": {"include_usage": True},
    "temperature": 0.5,
    "max_tokens": 5,
    "metadata": {"conversation_id": "c"},
}
DECISIONS = {
    "model": "scripted",
    "input": [{"role": "user", "content": [{"type": "input_text", "text": "x"}]}],
    "questions": [
        {"type": "predicate", "instructions": "i"},
        {"type": "choice", "instructions": "i", "choices": [{"value": "a"}, {"value": True}]},
        {"type": "score", "instructions": "i", "levels": [{"label": "a"}, {"label": "b"}]},
    ],
}
SYSTEM_ONE = {
    "model": "scripted",
    "state": {"a": [1]},
    "questions": {
        "n": {"type": "noul", "instructions": "i", "criteria": {"true": "t", "false": None}},
        "c": {"type": "choice", "instructions": {"i": 1}, "criteria": {"a": None, "b": ["x"]}},
        "l": {"type": "choice", "criteria": ["a", "b"]},
        "s": {"type": "score", "instructions": "i", "criteria": ["a", {"b": 1}]},
    },
}
TEXT = st.one_of(st.text(max_size=20), st.sampled_from(["\ud800", "\x00", "名古屋", "<|im_end|>", "a" * 2000, "$ref"]))
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), TEXT, st.just(10**400)),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TEXT, inner, max_size=4)),
    max_leaves=12,
)


def places(value, path=()):
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from places(inner, (*path, key))


@st.composite
def damaged(draw, whole):
    """A good request with one to three places replaced, removed or added to."""
    value = copy.deepcopy(whole)
    for _ in range(draw(st.integers(1, 3))):
        path = draw(st.sampled_from([path for path in places(value) if path]))
        inner = value
        for key in path[:-1]:
            inner = inner[key]
        action = draw(st.sampled_from(["replace", "remove", "add"]))
        if action == "replace":
            inner[path[-1]] = draw(JSON)
        elif action == "remove" and len(inner) > 1:
            del inner[path[-1]]
        elif isinstance(inner, dict):
            inner[draw(TEXT)] = draw(JSON)
        else:
            inner.append(draw(JSON))
    return json.dumps(value).encode()


def read_chat(body: bytes) -> None:
    fields = parse(ChatFields, body)
    request = chat_request(fields, ServerSettings())
    toolbox_of(tools_key(request.tools))


def refused_or_read(read) -> None:
    try:
        read()
    except (Refused, AgentformError) as error:
        problem = error.problem if isinstance(error, Refused) else problem_of(error)
        assert 400 <= problem.status < 500
        assert problem.message
        json.dumps(problem.body())


@given(body=damaged(CHAT))
@settings(max_examples=60)
def test_a_damaged_chat_request_is_refused_or_read(body):
    refused_or_read(lambda: read_chat(body))


@given(body=damaged(DECISIONS))
def test_a_damaged_decision_request_is_refused_or_read(body):
    refused_or_read(lambda: parse(DecisionFields, body))


@given(body=damaged(SYSTEM_ONE))
def test_a_damaged_system_one_request_is_refused_or_read(body):
    refused_or_read(lambda: parse(SystemOneFields, body))


@given(body=st.one_of(st.binary(max_size=60), JSON.map(lambda value: json.dumps(value).encode())))
def test_what_is_no_request_at_all_is_refused(body):
    with pytest.raises(Refused) as caught:
        parse(ChatFields, body)
    assert caught.value.problem.status == 400


SERVICE = Service(engine=ScriptedEngine([]))


@pytest.mark.anyio
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/decisions"])
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b'"x"',
        b"NaN",
        b"\xff\xfe{}",
        b"\x00" * 10,
        b"[" * 50_000,
        b'{"a":' * 50_000,
        b'{"model": "scripted", "model": 1}',
        b'{"model": "\\ud800", "messages": []}',
        b'{"model": "scripted", "n": 1e999, "messages": [{"role": "user", "content": "x"}]}',
        b'{"model": "scripted", "n": ' + b"9" * 5000 + b', "messages": [{"role": "user", "content": "x"}]}',
        b'{"model": "scripted", "temperature": NaN, "messages": [{"role": "user", "content": "x"}]}',
    ],
)
async def test_bodies_that_break_parsers_get_a_typed_400(path, body):
    transport = httpx.ASGITransport(app=SERVICE.app)
    headers = {"content-type": "application/json"}
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        reply = await client.post(path, content=body, headers=headers)
    assert (reply.status_code, reply.json()["error"]["type"]) == (400, "invalid_request_error")


@pytest.mark.parametrize(
    ("damage", "param", "said"),
    [
        ({"messages": "x"}, "messages", "valid array"),
        ({"temprature": 1}, "temprature", "did you mean 'temperature'?"),
        ({"messages": [{"role": "robot", "content": "x"}]}, "messages[0]", "'assistant', 'tool'"),
        (
            {"messages": [{"role": "tool", "tool_call_id": "q", "content": "x"}]},
            "messages[0].tool_call_id",
            "id of a call",
        ),
        ({"temperature": "0.5"}, "temperature", "valid number"),
        ({"temperature": True}, "temperature", "valid number"),
        ({"max_tokens": 0}, "max_tokens", "greater than or equal to 1"),
        ({"max_tokens": 5, "max_completion_tokens": 6}, "max_tokens", "differ"),
        ({"top_p": 0}, "top_p", "greater than 0"),
        ({"n": 10**30}, "n", "less than or equal to 16"),
        ({"stop": [""]}, "stop[0]", "at least 1 character"),
        ({"stop": ["x"] * 17}, "stop", "at most 16"),
        ({"tool_choice": "always"}, "tool_choice", "'auto', 'none', 'required' or 'any'"),
        ({"tool_choice": {"type": "function", "name": "f"}}, "tool_choice.name", "there are no tools"),
        ({"tool_choice": {"type": "mcp"}}, "tool_choice", "'allowed_tools'"),
        ({"tool_choice": {"type": "function"}}, "tool_choice", "its name, which is missing"),
        ({"tool_choice": {"type": "allowed_tools", "mode": "auto"}}, "tool_choice", "needs mode"),
        ({"messages": [{"role": "user", "content": {"a": 1}}]}, "messages[0].content", "valid string"),
        ({"tools": [{"type": "custom", "custom": {}}]}, "tools[0].type", "'function'"),
        ({"response_format": {"type": "xml"}}, "response_format", "'json_schema'"),
        ({"stream": None, "stream_options": {}}, "stream_options", "stream: true"),
        ({"modalities": ["audio"]}, "modalities", "only ['text']"),
        ({"audio": {}}, "audio", "not supported"),
        ({"maxtokens": 1}, "maxtokens", "did you mean 'max_tokens'?"),
        (
            {"tools": [{"type": "function", "function": {"name": "a b"}}]},
            "tools[0].function.name",
            "cannot name a tool",
        ),
        (
            {"tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "strin"}}}]},
            "tools[0].function.parameters",
            "schema at",
        ),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "objekt"}}}},
            "response_format.json_schema.schema",
            "schema at",
        ),
    ],
)
def test_the_error_names_the_field_and_what_is_right(damage, param, said):
    body = {"model": "scripted", "messages": [{"role": "user", "content": "x"}], **damage}
    with pytest.raises(Refused) as caught:
        read_chat(json.dumps(body).encode())
    assert caught.value.problem.param == param
    assert said in caught.value.problem.message
