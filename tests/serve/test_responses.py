"""`/v1/responses` through the openai package."""

from __future__ import annotations

import json
from typing import Literal

import httpx
import openai
import pytest
from openai.types.responses import Response
from pydantic import BaseModel

from agentform.agent.conversation import Conversation
from agentform.agent.sqlite_store import SQLiteStore
from agentform.messages import Message
from agentform.serve.kept_responses import KeptResponse, KeptResponses
from agentform.testing import Call, Fill, Say, ScriptedEngine
from tests.serve.test_openai_client import ARGUMENTS, client
from tests.support.servers import running

ASK = {"model": "scripted", "input": "It is dark in the office."}
LIGHT = {
    "type": "function",
    "name": "light",
    "parameters": {
        "type": "object",
        "properties": {"room": {"enum": ["kitchen", "office"]}, "on": {"type": "boolean"}},
        "required": ["room", "on"],
        "additionalProperties": False,
    },
    "strict": True,
}
NOTE = {
    "type": "function",
    "name": "note",
    "parameters": {"type": "object", "properties": {"text": {"type": "string"}}},
}
SWITCH = Call("light", ARGUMENTS, text="I switch it on.")
KEYS = ("first-key-of-a-client", "second-key-of-a-client")


class Mood(BaseModel):
    """How somebody feels."""

    mood: Literal["good", "bad"]


def valid(response):
    """The response, as strict as the package's own types are."""
    Response.model_validate(response.model_dump())
    return response


def test_an_answer_a_call_and_its_result():
    engine = ScriptedEngine([Say("Hello."), SWITCH, Say("It is on.")])
    with running(engine) as server, client(server) as each:
        said = valid(each.responses.create(**ASK, instructions="Be brief."))
        called = valid(each.responses.create(**ASK, tools=[LIGHT], extra_body={"agentform": {"evidence": True}}))
        history = [{"role": "user", "content": ASK["input"]}, *called.output]
        call = called.output[-1]
        history += [{"type": "function_call_output", "call_id": call.call_id, "output": "Switched."}]
        answer = each.responses.create(model="scripted", input=history, tools=[LIGHT])
    assert (said.output_text, said.status, said.usage.output_tokens) == ("Hello.", "completed", 7)
    assert [item.type for item in called.output] == ["reasoning", "function_call"]
    assert called.output[0].content[0].text == "I switch it on."
    assert (call.name, json.loads(call.arguments)) == ("light", ARGUMENTS)
    assert called.model_extra["agentform"]["calls"][0]["arguments"][0]["how"] == "scored"
    assert answer.output_text == "It is on."
    prompt = engine.tokenizer.decode(engine.requests[-1].prompt_ids)
    assert "I switch it on.\n<tool_call>" in prompt
    assert "<tool_response>\nSwitched." in prompt
    assert "Be brief." in engine.tokenizer.decode(engine.requests[0].prompt_ids)


def test_a_stream_of_typed_events_adds_up_to_the_answer():
    engine = ScriptedEngine([SWITCH, Say("Hello there.")])
    with running(engine) as server, client(server) as each:
        events = list(each.responses.create(**ASK, tools=[LIGHT], stream=True))
        with each.responses.stream(**ASK) as stream:
            kinds = [event.type for event in stream]
            final = stream.get_final_response()
    assert [event.sequence_number for event in events] == list(range(len(events)))
    whole = events[-1].response
    assert [event.type for event in events[:2]] == ["response.created", "response.in_progress"]
    assert [e.item for e in events if e.type == "response.output_item.done"] == whole.output
    deltas = [event.delta for event in events if event.type == "response.reasoning_text.delta"]
    assert "".join(deltas) == whole.output[0].content[0].text == "I switch it on."
    [arguments] = [event for event in events if event.type == "response.function_call_arguments.done"]
    assert json.loads(arguments.arguments) == ARGUMENTS
    assert (final.output_text, kinds[-1]) == ("Hello there.", "response.completed")
    assert "response.output_text.delta" in kinds


def test_a_fault_in_the_middle_of_a_stream_is_an_event_of_the_api():
    engine = ScriptedEngine([Call("light", {}, text="I switch it on.")])  # the script lacks the arguments
    with running(engine) as server, httpx.Client(base_url=server.url, timeout=30) as http:
        reply = http.post("/v1/responses", json=ASK | {"tools": [LIGHT], "stream": True})
    names = [line.removeprefix("event: ") for line in reply.text.splitlines() if line.startswith("event: ")]
    told = [json.loads(line.removeprefix("data: ")) for line in reply.text.splitlines() if line.startswith("data: ")]
    assert (reply.status_code, names[0], names[-1]) == (200, "response.created", "error")
    assert [event["type"] for event in told] == names
    assert [event["sequence_number"] for event in told] == list(range(len(told)))
    assert (told[-1]["code"], told[-1]["param"]) == ("server_error", None)
    assert "response.completed" not in names


def test_forms_are_parsed_and_cut_off_answers_are_incomplete():
    engine = ScriptedEngine([Fill("It is dark", {"mood": "bad"}), Say("A long answer.")])
    with running(engine) as server, client(server) as each:
        parsed = each.responses.parse(**ASK, text_format=Mood)
        cut = each.responses.create(model="scripted", input="hello", max_output_tokens=6)
    assert parsed.output_parsed == Mood(mood="bad")
    assert (cut.status, cut.incomplete_details.reason, cut.output_text) == ("incomplete", "max_output_tokens", "A long")


@pytest.mark.parametrize(
    ("choice", "step"),
    [
        ({"type": "function", "name": "note"}, Call("note", {"text": "x"})),
        ({"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "note"}]}, Call("note")),
        ("none", Say("No.")),
    ],
)
def test_tool_choice_says_what_a_turn_may_come_to(choice, step):
    with running(ScriptedEngine([step])) as server, client(server) as each:
        done = each.responses.create(**ASK, tools=[LIGHT, NOTE], tool_choice=choice)
    names = [item.name for item in done.output if item.type == "function_call"]
    assert names == ([] if choice == "none" else ["note"])


@pytest.mark.parametrize("in_file", [False, True])
def test_an_answer_that_was_kept_is_gone_on_from_by_its_own_client_alone(in_file, tmp_path):
    engine = ScriptedEngine([Say("One."), Say("Two."), Say("Three.")])
    file = tmp_path / "responses.sqlite" if in_file else None
    with running(engine, api_keys=KEYS, responses_file=file) as server:
        mine, other = (openai.OpenAI(base_url=server.url + "/v1", api_key=key, max_retries=0) for key in KEYS)
        with mine, other:
            first = mine.responses.create(**ASK, instructions="Be brief.")
            second = mine.responses.create(model="scripted", input="And?", previous_response_id=first.id)
            assert mine.responses.retrieve(second.id).output_text == "Two."
            assert mine.responses.input_items.list(second.id).data[0].content[0].text == "And?"
            with pytest.raises(openai.NotFoundError):
                other.responses.retrieve(first.id)
            with pytest.raises(openai.BadRequestError, match="no response"):
                other.responses.create(model="scripted", input="And?", previous_response_id=first.id)
            mine.responses.delete(first.id)
            with pytest.raises(openai.NotFoundError):
                mine.responses.retrieve(first.id)
            unkept = mine.responses.create(model="scripted", input="x", store=False)
            with pytest.raises(openai.NotFoundError):
                mine.responses.retrieve(unkept.id)
    prompt = engine.tokenizer.decode(engine.requests[1].prompt_ids)
    assert prompt.index("It is dark") < prompt.index("One.") < prompt.index("And?")
    assert "Be brief." not in prompt


@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_a_fault_with_what_was_kept_is_in_the_log_without_what_it_says(method, monkeypatch, caplog):
    async def broken(self, client, response_id):
        raise RuntimeError(response_id)

    monkeypatch.setattr(KeptResponses, "load" if method == "GET" else "delete", broken)
    with running(ScriptedEngine([])) as server, httpx.Client(base_url=server.url, timeout=30) as http:
        reply = http.request(method, "/v1/responses/resp_told")
    assert (reply.status_code, reply.json()["error"]["code"]) == (500, "server_error")
    assert "a request failed with RuntimeError" in caplog.text
    assert not any("resp_told" in record.message for record in caplog.records if record.name == "agentform.serve")
    assert "resp_told" not in reply.text


@pytest.mark.parametrize(
    ("wrong", "param"),
    [
        ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
        ({"input": [{"type": "function_call_output", "call_id": "x", "output": "y"}]}, "input[0].call_id"),
        ({"input": []}, "input"),
        (
            {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}]},
            "input[0].content[0].type",
        ),
        ({"tools": [NOTE], "tool_choice": {"type": "function", "name": "x"}}, "tool_choice.name"),
        ({"tools": [NOTE, NOTE]}, "tools[1].name"),
        ({"background": True}, "background"),
    ],
)
def test_what_is_wrong_is_named(wrong, param, served):
    with pytest.raises(openai.BadRequestError) as caught:
        served.responses.create(**{**ASK, **wrong})
    assert caught.value.param == param


@pytest.fixture(scope="module")
def served():
    with running(ScriptedEngine([])) as server, client(server) as each:
        yield each


@pytest.mark.anyio
@pytest.mark.parametrize("in_file", [False, True])
async def test_what_one_client_asks_for_drives_out_nothing_of_others(in_file, tmp_path):
    file = tmp_path / "kept.sqlite" if in_file else None
    if file is not None:
        await SQLiteStore(file).save(Conversation(id="somebody/else", messages=[Message(role="user", content="x")]))
    kept = KeptResponses(file, kept_characters=1000, most_in_file=4)
    await kept.save("one", answer("0" * 32))
    for at in range(1, 13):
        await kept.save("other", answer(f"{at:032x}"))
    assert await kept.load("one", f"resp_{'0' * 32}") == answer("0" * 32)
    found = [await kept.load("other", f"resp_{at:032x}") for at in range(1, 13)]
    assert found[0] is None
    assert found[-1] == answer(f"{12:032x}")
    if file is not None:
        assert await SQLiteStore(file).load("somebody/else")
        assert sum(each is not None for each in found) == 4


def answer(number: str) -> KeptResponse:
    messages = (Message(role="user", content="x" * 200),)
    return KeptResponse(body={"id": f"resp_{number}", "output": []}, messages=messages, input_items=[])
