"""What other servers add, other models wrote and other clients send does not cost the answer."""

from __future__ import annotations

import json

import anyio
import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentform.schema.json_text import dumps
from agentform.serve.app import Service
from agentform.serve.past_arguments import past_arguments
from agentform.serve.settings import ServerSettings
from agentform.testing import Call, Fill, Say, ScriptedEngine, prompts

USER = {"role": "user", "content": "hi"}


def post(script, body, path="/v1/chat/completions"):
    """The reply, and the prompts that the model saw."""
    engine = ScriptedEngine(script)
    service = Service(engine=engine, settings=ServerSettings(served_name="m"))

    async def ask():
        transport = httpx.ASGITransport(app=service.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000") as client:
            return await client.post(path, json={"model": "m", **body}, timeout=None)

    return anyio.run(ask), prompts(engine)


def called(call_id, name, arguments="{}", **more):
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments, **more}}


def answered(*messages, script=None, **body):
    reply, seen = post(script or [Say("ok")], {"messages": [USER, *messages], **body})
    assert reply.status_code == 200, reply.text
    return reply, seen[-1] if seen else ""


WRITTEN = [
    ('{"path": "/tmp/x', {"path": "/tmp/x"}),
    ('{"path": "/tmp/x", "n": [1, 2', {"path": "/tmp/x", "n": [1, 2]}),
    ('{"a": 1}{"b": 2}', {"a": 1}),
    ('{"a": 1} and so on', {"a": 1}),
    ('{"a": 1, "a": 2}', {"a": 2}),
    ('{"a": NaN}', {"a": "nan"}),
    ('{"a": "\\ud800"}', {"a": "\ufffd"}),
    ('"{\\"a\\": 1}"', {"a": 1}),
    ("null", {}),
    (" ", {}),
    ("", {}),
    (None, {}),
    ({"a": 1}, {"a": 1}),
    ("{", {}),
    ("[1, 2]", {"malformed": "[1, 2]"}),
    ([1, 2], {"malformed": "[1, 2]"}),
    ("path=/tmp", {"malformed": "path=/tmp"}),
    ("{'a': 1}", {"malformed": "{'a': 1}"}),
    ('"text"', {"malformed": '"text"'}),
    ("[" * 3000, {"malformed": "[" * 3000}),
]


@pytest.mark.parametrize(("said", "read"), WRITTEN, ids=range(len(WRITTEN)))
def test_arguments_that_a_model_once_wrote_are_read_as_far_as_they_go(said, read):
    assert past_arguments(said) == read
    message = {"role": "assistant", "tool_calls": [called("1", "f", said)]}
    answered(message, {"role": "tool", "tool_call_id": "1", "content": "Error"}, USER)


@given(st.one_of(st.text(max_size=30), st.text('{}[]":,ab1\\ud\x00', max_size=30)))
def test_no_text_is_an_error_and_what_is_read_can_be_written(text):
    dumps(past_arguments(text))


@pytest.mark.parametrize("said", ['{"a": 1', "null", "nonsense"])
def test_past_arguments_of_decisions_are_history_too(said):
    asked = {
        "input": [
            {"role": "user", "content": "hi"},
            {"type": "function_call", "call_id": "1", "name": "f", "arguments": said},
            {"type": "function_call_output", "call_id": "1", "output": "Error"},
        ],
        "questions": [{"type": "predicate", "name": "q", "instructions": "Is it well?"}],
    }
    reply, _ = post([Fill("Is it well?", {"q": True})], asked, "/v1/decisions")
    assert reply.status_code == 200, reply.text


def test_results_in_any_order_are_shown_in_the_order_of_the_calls():
    _, seen = answered(
        {"role": "assistant", "tool_calls": [called("1", "weather"), called("2", "clock"), called("3", "weather")]},
        {"role": "tool", "tool_call_id": "3", "content": "third"},
        {"role": "tool", "tool_call_id": "2", "content": "second"},
        {"role": "tool", "tool_call_id": "1", "content": "first"},
    )
    assert seen.index("first") < seen.index("second") < seen.index("third")


def test_ids_that_are_used_again_belong_to_the_last_calls_of_that_id():
    turn = {"role": "assistant", "tool_calls": [called("1", "weather"), called("2", "clock")]}
    results = [{"role": "tool", "tool_call_id": i, "content": f"{n} {i}"} for n, i in (("a", "2"), ("a", "1"))]
    again = [{"role": "tool", "tool_call_id": i, "content": f"b {i}"} for i in ("2", "1")]
    _, seen = answered(turn, *results, turn, *again)
    assert [seen.index(text) for text in ("a 1", "a 2", "b 1", "b 2")] == sorted(
        seen.index(text) for text in ("a 1", "a 2", "b 1", "b 2")
    )


def test_results_without_an_id_answer_the_calls_one_after_the_other():
    calls = [{"function": {"name": "weather", "arguments": {}}}, {"function": {"name": "clock"}}]
    _, seen = answered(
        {"role": "assistant", "content": "", "tool_calls": calls},
        {"role": "tool", "name": "clock", "content": "second"},
        {"role": "tool", "content": "first"},
    )
    assert seen.index("first") < seen.index("second")


def test_calls_from_before_there_were_tool_calls_are_history_too():
    call = {"name": "light", "arguments": '{"room": "hall"}'}
    _, seen = answered(
        {"role": "assistant", "content": None, "function_call": call},
        {"role": "function", "name": "light", "content": "It is dark."},
    )
    assert seen.index("hall") < seen.index("It is dark.")


def test_text_has_the_names_of_responses_as_well():
    parts = [{"type": "input_text", "text": "one"}, {"type": "output_text", "text": "two"}]
    _, seen = answered({"role": "assistant", "content": parts[1:]}, {"role": "user", "content": parts[:1]})
    assert seen.index("two") < seen.index("one")


@pytest.mark.parametrize("content", [None, "", [{"type": "text", "text": "a"}], "caf\\udce9 \x00"])
def test_a_result_may_hold_anything(content):
    answered(
        {"role": "assistant", "tool_calls": [called("1", "f")]},
        {"role": "tool", "tool_call_id": "1", "content": content, "is_error": True, "cache_control": {"type": "x"}},
    )


ADDED = {
    "reasoning": "Let me see.",
    "reasoning_details": [{"type": "reasoning.text", "text": "x"}],
    "reasoning_content": "Let me see.",
    "thinking_blocks": [],
    "provider_specific_fields": {"x": 1},
    "parsed": {"a": 1},
    "function_call": None,
    "audio": None,
    "stop_reason": 1,
    "token_ids": [1, 2],
    "refusal": None,
    "annotations": [],
}


def test_what_servers_add_to_their_messages_can_be_sent_back():
    call = called("1", "f", parsed_arguments={"a": 1}) | {"index": 0, "extra_content": {"google": {}}}
    reply, _ = answered(
        {"role": "assistant", "content": "Hm.", "tool_calls": [call], **ADDED},
        {"role": "tool", "tool_call_id": "1", "content": "r"},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "x"}, {"type": "text", "text": "y"}]},
        {"role": "user", "content": [{"type": "text", "text": "z", "cache_control": {"type": "ephemeral"}}]},
    )
    ignored = reply.headers["x-agentform-ignored"].split(", ")
    assert {"messages[].reasoning", "messages[].tool_calls[].function.parsed_arguments"} <= set(ignored)
    assert "messages[].content[].cache_control" in ignored
    assert "messages[].audio" not in ignored


def test_what_was_ignored_is_named_in_the_order_of_the_fields():
    said = [{"type": "text", "text": "y", "a": 1}]
    reply, _ = answered(
        {"role": "assistant", "content": said, "tool_calls": [called("1", "f", b=1)], "c": 1},
        {"role": "tool", "tool_call_id": "1", "content": "r"},
        mirostat=1,
    )
    names = "mirostat, messages[].content[].a, messages[].tool_calls[].function.b, messages[].c"
    assert reply.headers["x-agentform-ignored"] == names


FOREIGN = {
    "min_tokens": 1,
    "ignore_eos": False,
    "stop_token_ids": [2],
    "skip_special_tokens": True,
    "separate_reasoning": True,
    "guided_decoding_backend": "auto",
    "best_of": 1,
    "cache_salt": "x",
    "priority": 0,
    "some_field_of_next_year": {"a": [1]},
}


@pytest.mark.parametrize("name", FOREIGN)
@pytest.mark.parametrize("stream", [False, True])
def test_fields_of_other_servers_are_ignored_and_named_in_a_header(name, stream):
    reply, _ = answered(**{name: FOREIGN[name]}, stream=stream)
    assert reply.headers["x-agentform-ignored"] == name


def test_a_request_of_known_fields_has_no_such_header_and_null_asks_for_nothing():
    reply, _ = answered(temperature=0, mirostat=None, user="u")
    assert "x-agentform-ignored" not in reply.headers


def test_thinking_that_is_switched_off_is_no_reasoning():
    tools = [{"type": "function", "function": {"name": "f"}}]
    reply, _ = answered(
        script=[Call("f")], tools=tools, tool_choice="required", chat_template_kwargs={"enable_thinking": False, "x": 1}
    )
    body = reply.json()
    assert body["usage"]["completion_tokens_details"]["reasoning_tokens"] == 0
    assert body["choices"][0]["message"]["tool_calls"][0]["function"]["name"] == "f"
    assert "x-agentform-ignored" not in reply.headers


SCHEMA = {"type": "object", "properties": {"on": {"type": "boolean"}}, "required": ["on"]}


@pytest.mark.parametrize(
    "given",
    [
        {"guided_json": SCHEMA},
        {"guided_json": json.dumps(SCHEMA)},
        {"structured_outputs": {"json": SCHEMA}},
        {"json_schema": json.dumps(SCHEMA)},
        {"response_format": {"type": "json_object", "schema": SCHEMA}},
        {"response_format": {"type": "json_schema", "json_schema": {"schema": SCHEMA}}},
    ],
)
def test_schemas_of_other_servers_bind_the_answer(given):
    reply, _ = answered(script=[Say(""), Fill("hi", {"on": True})], **given)
    assert json.loads(reply.json()["choices"][0]["message"]["content"]) == {"on": True}


@pytest.mark.parametrize(
    ("given", "param"),
    [
        ({"guided_json": "no json"}, "guided_json"),
        ({"structured_outputs": {"json": {"type": "objekt"}}}, "structured_outputs.json"),
        ({"json_schema": "[]"}, "json_schema"),
        ({"response_format": {"type": "json_object", "schema": {"type": "objekt"}}}, "response_format.schema"),
    ],
)
def test_a_schema_that_is_none_is_refused_by_its_name(given, param):
    reply, _ = post([], {"messages": [USER], **given})
    assert (reply.status_code, reply.json()["error"]["param"]) == (400, param)


def test_a_name_in_a_header_is_harmless():
    reply, _ = answered(**{"a\r\nset-cookie: x=1": 1, "ü" * 500: 2})
    assert reply.headers["x-agentform-ignored"] == "a??set-cookie??x?1, " + "?" * 64
    assert "set-cookie" not in reply.headers


TYPELESS = [None, {}, {"$schema": "http://json-schema.org/draft-07/schema#"}, {"type": None}, {"title": "Nothing"}]
TYPELESS.append({"type": ["object"]})


@pytest.mark.parametrize("parameters", TYPELESS)
def test_arguments_are_an_object_whatever_the_schema_leaves_out(parameters):
    tools = [{"type": "function", "function": {"name": "next_tasks", "parameters": parameters}}]
    reply, _ = answered(script=[Call("next_tasks")], tools=tools, tool_choice="required")
    [call] = reply.json()["choices"][0]["message"]["tool_calls"]
    assert json.loads(call["function"]["arguments"]) == {}


def test_fields_that_change_nothing_here_are_named_where_they_ask_for_something():
    asked = {"store": True, "logit_bias": {"5": -100}, "prediction": {"type": "content", "content": "x"}}
    reply, _ = answered(**asked)
    assert set(reply.headers["x-agentform-ignored"].split(", ")) == set(asked)
    reply, _ = answered(store=False, logit_bias={}, stream_options=None)
    assert "x-agentform-ignored" not in reply.headers
