"""`/v1/messages`: bodies and events as Anthropic's clients read them."""

from __future__ import annotations

import json

import httpx
import pytest

from agentform.testing import Call, Fill, Say, ScriptedEngine
from tests.serve.test_openai_client import ARGUMENTS
from tests.support.servers import running

USER = [{"role": "user", "content": "It is dark in the office."}]
ASK = {"model": "scripted", "max_tokens": 200, "messages": USER}
SCHEMA = {
    "type": "object",
    "properties": {"room": {"enum": ["kitchen", "office"]}, "on": {"type": "boolean"}},
    "required": ["room", "on"],
    "additionalProperties": False,
}
LIGHT = {"name": "light", "description": "Switch the light.", "input_schema": SCHEMA}
SWITCH = Call("light", ARGUMENTS, text="I switch it on.")
KEY = "a-key-of-some-client"


def post(server, body, path="/v1/messages", **headers):
    with httpx.Client(base_url=server.url, timeout=30) as http:
        return http.post(path, json=body, headers=headers)


def events(reply):
    parts = [part.split("\n") for part in reply.text.strip().split("\n\n")]
    found = [(name.removeprefix("event: "), json.loads(data.removeprefix("data: "))) for name, data in parts]
    assert all(name == data["type"] for name, data in found)
    return [data for _, data in found]


def test_a_call_and_its_result_are_blocks():
    engine = ScriptedEngine([SWITCH, Say("It is on.")])
    with running(engine) as server:
        asked = ASK | {"system": "Be brief.", "tools": [LIGHT], "agentform": {"evidence": True}}
        called = post(server, asked).json()
        result = {"type": "tool_result", "tool_use_id": called["content"][1]["id"], "content": "Switched."}
        past = [*USER, {"role": "assistant", "content": called["content"]}]
        past += [{"role": "user", "content": [result, {"type": "text", "text": "Well?"}]}]
        answer = post(server, ASK | {"messages": past, "tools": [LIGHT]}).json()
    assert [block["type"] for block in called["content"]] == ["text", "tool_use"]
    assert (called["content"][1]["name"], called["content"][1]["input"]) == ("light", ARGUMENTS)
    assert (called["stop_reason"], called["type"], called["role"]) == ("tool_use", "message", "assistant")
    assert called["agentform"]["calls"][0]["arguments"][0]["how"] == "scored"
    assert (answer["content"], answer["stop_reason"]) == ([{"type": "text", "text": "It is on."}], "end_turn")
    assert answer["usage"]["input_tokens"] > 0
    prompt = next(text for r in engine.requests if "Well?" in (text := engine.tokenizer.decode(r.prompt_ids)))
    assert prompt.index("I switch it on.\n<tool_call>") < prompt.index("Switched.") < prompt.index("Well?")
    assert "Be brief." in engine.tokenizer.decode(engine.requests[0].prompt_ids)


def test_a_stream_of_typed_events_adds_up_to_the_message():
    with running(ScriptedEngine([SWITCH])) as server:
        told = events(post(server, ASK | {"tools": [LIGHT], "stream": True}))
    assert [told[0]["type"], told[-2]["type"], told[-1]["type"]] == ["message_start", "message_delta", "message_stop"]
    deltas = [event["delta"] for event in told if event["type"] == "content_block_delta"]
    assert "".join(delta.get("text", "") for delta in deltas) == "I switch it on."
    assert json.loads("".join(delta.get("partial_json", "") for delta in deltas)) == ARGUMENTS
    starts = [event["content_block"]["type"] for event in told if event["type"] == "content_block_start"]
    assert starts == ["text", "tool_use"]
    assert told[-2]["delta"]["stop_reason"] == "tool_use"
    assert told[-2]["usage"]["output_tokens"] > 0


def test_where_thinking_is_asked_for_what_is_said_before_a_call_is_a_thought():
    thinking = {"thinking": {"type": "enabled", "budget_tokens": 1024}, "tools": [LIGHT]}
    engine = ScriptedEngine([SWITCH, SWITCH, Say("It is on.")])
    with running(engine) as server:
        whole = post(server, ASK | thinking).json()
        told = events(post(server, ASK | thinking | {"stream": True}))
        result = {"type": "tool_result", "tool_use_id": whole["content"][1]["id"], "content": "Switched."}
        past = [*USER, {"role": "assistant", "content": whole["content"]}, {"role": "user", "content": [result]}]
        answer = post(server, ASK | thinking | {"messages": past}).json()
    assert whole["content"][0] == {"type": "thinking", "thinking": "I switch it on.", "signature": ""}
    starts = [event["content_block"]["type"] for event in told if event["type"] == "content_block_start"]
    assert starts == [block["type"] for block in whole["content"]] == ["thinking", "tool_use"]
    assert answer["content"] == [{"type": "text", "text": "It is on."}]
    assert any("I switch it on.\n<tool_call>" in engine.tokenizer.decode(r.prompt_ids) for r in engine.requests[-4:])


def test_a_fault_in_the_middle_of_a_stream_is_an_event_of_the_api():
    engine = ScriptedEngine([Call("light", {}, text="I switch it on.")])  # the script lacks the arguments
    with running(engine) as server:
        reply = post(server, ASK | {"tools": [LIGHT], "stream": True})
    told = events(reply)
    assert (reply.status_code, told[0]["type"], told[-1]["type"]) == (200, "message_start", "error")
    assert told[-1]["error"]["type"] == "api_error"
    assert not {"message_delta", "message_stop"} & {event["type"] for event in told}


def test_stops_forms_and_required_calls():
    engine = ScriptedEngine([Say("One. Two."), Fill("It is dark", ARGUMENTS), SWITCH])
    with running(engine) as server:
        stopped = post(server, ASK | {"stop_sequences": [" Two"]}).json()
        format = {"type": "json_schema", "schema": SCHEMA}
        formed = post(server, ASK | {"output_config": {"format": format}}).json()
        called = post(server, ASK | {"tools": [LIGHT], "tool_choice": {"type": "any"}}).json()
    assert (stopped["stop_reason"], stopped["stop_sequence"]) == ("stop_sequence", " Two")
    assert json.loads(formed["content"][0]["text"]) == ARGUMENTS
    assert called["stop_reason"] == "tool_use"


def test_tokens_are_counted_and_keys_are_shown_in_their_header():
    engine = ScriptedEngine([Say("Hello.")])
    with running(engine, api_keys=(KEY,)) as server:
        refused = post(server, ASK)
        count = post(server, {"model": "scripted", "messages": USER}, "/v1/messages/count_tokens", **{"x-api-key": KEY})
        done = post(server, ASK, **{"x-api-key": KEY})
    assert (refused.status_code, refused.json()["error"]["type"]) == (401, "authentication_error")
    usage = done.json()["usage"]
    assert count.json() == {"input_tokens": usage["input_tokens"] + usage["cache_read_input_tokens"]}


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"max_tokens": None}, "max_tokens"),
        ({"tools": [LIGHT | {"input_schema": {"type": "objekt"}}]}, "tools[0].input_schema"),
        ({"tools": [{"type": "web_search_20250305", "name": "web_search"}]}, "tools[0].type"),
        ({"messages": [{"role": "user", "content": [{"type": "image", "source": {}}]}]}, "messages[0].content[0]"),
        ({"messages": [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "x"}]}]}, "tool_use_id"),
        ({"tool_choice": {"type": "tool", "name": "x"}}, "tool_choice"),
    ],
)
def test_what_is_wrong_is_named_in_the_shape_of_the_api(wrong, said, served):
    reply = post(served, ASK | wrong)
    assert (reply.status_code, reply.json()["type"]) == (400, "error")
    assert reply.json()["error"]["type"] == "invalid_request_error"
    assert said in reply.json()["error"]["message"]


def test_another_model_is_not_found_and_the_path_may_end_with_a_slash(served):
    reply = post(served, ASK | {"model": "other"}, "/v1/messages/")
    assert (reply.status_code, reply.json()["error"]["type"]) == (404, "not_found_error")


@pytest.fixture(scope="module")
def served():
    with running(ScriptedEngine([])) as server:
        yield server
