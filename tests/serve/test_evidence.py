"""What clients are told of how an answer came about: evidence, log probabilities, reasoning."""

from __future__ import annotations

import json
import math

import openai
import pytest

from agentform.testing import Call, Fill, Say, ScriptedEngine
from tests.serve.test_openai_client import ARGUMENTS, LIGHT, NOTE, SWITCH, USER, client
from tests.support.servers import running

ASK = {"model": "scripted", "messages": USER}


def reasoning_of(chunks):
    return "".join((c.choices[0].delta.model_extra or {}).get("reasoning_content", "") for c in chunks)


def content_of(chunks):
    return "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)


def test_evidence_of_calls_and_answers_is_told_to_who_asks_by_field_or_header():
    engine = ScriptedEngine([SWITCH, SWITCH, Say("No."), SWITCH])
    with running(engine) as server, client(server) as each:
        asked = each.chat.completions.create(**ASK, tools=[LIGHT], extra_body={"agentform": {"evidence": True}})
        header = {"X-Agentform-Evidence": "true"}
        with each.chat.completions.stream(**ASK, tools=[LIGHT], extra_headers=header) as stream:
            events = [event.chunk.model_extra.get("agentform") for event in stream if event.type == "chunk"]
            final = stream.get_final_completion()
        answer = each.chat.completions.create(**ASK, tools=[LIGHT], extra_headers=header)
        plain = each.chat.completions.create(**ASK, tools=[LIGHT])
    for message in (asked.choices[0].message, final.choices[0].message):
        told = message.model_extra["agentform"]
        [call] = told["calls"]
        assert (call["name"], call["id"]) == ("light", message.tool_calls[0].id)
        room = next(each for each in call["arguments"] if each["pointer"] == "/room")
        assert (room["value"], room["how"]) == ("office", "scored")
        assert 0.5 < room["probability"] <= 1
        assert [other["value"] for other in room["alternatives"]] == ["kitchen"]
        assert call["decision"]["value"] == told["decision"]["value"] == "light"
    told = [event for event in events if event]
    assert told[0]["decision"]["value"] == "light"
    assert {event["argument"]["evidence"]["pointer"] for event in told[1:]} == {"/room", "/on"}
    decision = answer.choices[0].message.model_extra["agentform"]["decision"]
    assert (decision["value"], decision["alternatives"][0]["value"]) == (None, "light")
    assert "agentform" not in (plain.choices[0].message.model_extra or {})


@pytest.mark.parametrize("stream", [False, True])
def test_log_probabilities_are_those_of_the_contents_tokens(stream):
    with running(ScriptedEngine([Say("  It is on. ")])) as server, client(server) as each:
        done = each.chat.completions.create(**ASK, logprobs=True, top_logprobs=2, stream=stream)
        parts = [choice for chunk in (done if stream else [done]) for choice in chunk.choices]
    tokens = [token for part in parts if part.logprobs for token in part.logprobs.content]
    assert "".join(token.token for token in tokens) == "It is on."
    assert all(token.logprob <= 0 and token.bytes == list(token.token.encode()) for token in tokens)
    assert all(len(token.top_logprobs) == 2 for token in tokens)
    assert all(one.top_logprobs[0].logprob >= one.top_logprobs[1].logprob > -math.inf for one in tokens)


def test_a_form_that_is_an_answer_has_evidence_for_its_leaves():
    schema = {"type": "object", "properties": {"on": {"type": "boolean"}}, "required": ["on"]}
    format = {"type": "json_schema", "json_schema": {"name": "lamp", "schema": schema}}
    with running(ScriptedEngine([Fill("It is dark", {"on": True})])) as server, client(server) as each:
        extra = {"agentform": {"evidence": True}}
        done = each.chat.completions.create(**ASK, response_format=format, extra_body=extra)
    [leaf] = done.choices[0].message.model_extra["agentform"]["output"]
    assert (leaf["pointer"], leaf["value"], leaf["how"]) == ("/on", True, "scored")


def test_text_before_a_call_is_never_streamed_as_content_and_comes_back_as_what_it_was():
    engine = ScriptedEngine([SWITCH, Say("It is on."), SWITCH, SWITCH])
    with running(engine) as server, client(server) as each:
        chunks = list(each.chat.completions.create(**ASK, tools=[LIGHT], stream=True))
        assert (content_of(chunks), reasoning_of(chunks)) == ("", "I switch it on.")
        call = {"id": "c", "type": "function", "function": {"name": "light", "arguments": json.dumps(ARGUMENTS)}}
        past = [{"role": "assistant", "tool_calls": [call], "reasoning_content": "I switch it on."}]
        past += [{"role": "tool", "tool_call_id": "c", "content": "Done."}]
        chunks = list(each.chat.completions.create(model="scripted", messages=USER + past, tools=[LIGHT], stream=True))
        assert (content_of(chunks), reasoning_of(chunks)) == ("It is on.", "")
        chunks = list(each.chat.completions.create(**ASK, tools=[LIGHT], stream=True, tool_choice="required"))
        assert (content_of(chunks), reasoning_of(chunks)) == ("", "I switch it on.")
        chunks = list(
            each.chat.completions.create(**ASK, tools=[LIGHT], stream=True, extra_body={"reasoning_format": "none"})
        )
        assert (content_of(chunks), reasoning_of(chunks)) == ("I switch it on.", "")
    prompt = engine.tokenizer.decode(engine.requests[-1].prompt_ids)
    second = next(r for r in engine.requests if "<tool_response>" in engine.tokenizer.decode(r.prompt_ids))
    assert "I switch it on.\n<tool_call>" in engine.tokenizer.decode(second.prompt_ids)
    assert prompt


def test_a_required_call_keeps_room_within_its_tokens():
    engine = ScriptedEngine([Call("note", {"text": "It is dark."}, text="I think of it. " * 20)])
    with running(engine) as server, client(server) as each:
        done = each.chat.completions.create(**ASK, tools=[NOTE], tool_choice="required", max_tokens=80)
    assert json.loads(done.choices[0].message.tool_calls[0].function.arguments) == {"text": "It is dark."}
    assert done.usage.completion_tokens <= 80


@pytest.mark.parametrize("stream", [False, True])
def test_how_tokens_are_drawn_reaches_the_engine(stream):
    engine = ScriptedEngine([Say("One.")])
    said = {"top_k": 5, "min_p": 0.1, "repeat_penalty": 1.2}
    with running(engine) as server, client(server) as each:
        options = ASK | {"frequency_penalty": 0.5, "presence_penalty": -0.5, "stream": stream, "extra_body": said}
        reply = each.chat.completions.with_raw_response.create(**options)
        reply.http_response.read()
    drawn = engine.requests[0].sampling
    assert (drawn.top_k, drawn.min_p, drawn.repetition_penalty) == (5, 0.1, 1.2)
    assert (drawn.frequency_penalty, drawn.presence_penalty) == (0.5, -0.5)
    assert "x-agentform-ignored" not in reply.headers


@pytest.mark.parametrize("stream", [False, True])
def test_several_answers_are_numbered(stream):
    engine = ScriptedEngine([Say("One."), Say("Two.")])
    with running(engine) as server, client(server) as each:
        done = each.chat.completions.create(**ASK, n=2, stream=stream)
        texts = {0: "", 1: ""}
        for chunk in done if stream else [done]:
            for choice in chunk.choices:
                texts[choice.index] += (choice.delta if stream else choice.message).content or ""
    assert sorted(texts.values()) == ["One.", "Two."]
    assert len({request.sampling.seed for request in engine.requests}) == 2


def test_a_call_that_says_nothing_new_is_not_made_again_and_a_header_says_so():
    def past(*results):
        messages = list(USER)
        for at, result in enumerate(results):
            function = {"name": "light", "arguments": json.dumps(ARGUMENTS)}
            calls = [{"id": f"c{at}", "type": "function", "function": function}]
            messages += [{"role": "assistant", "tool_calls": calls}]
            messages += [{"role": "tool", "tool_call_id": f"c{at}", "content": result}]
        return messages

    engine = ScriptedEngine([SWITCH, Say("It is on."), SWITCH])
    with running(engine) as server, client(server) as each:
        create = each.chat.completions.with_raw_response.create
        reply = create(model="scripted", messages=past("on", "on"), tools=[LIGHT], stream=True)
        assert content_of(list(reply.parse())) == "It is on."
        assert reply.headers["x-agentform-repeated-call"] == "light"
        reply = create(model="scripted", messages=past("on", "off"), tools=[LIGHT])
        assert reply.parse().choices[0].message.tool_calls
        assert "x-agentform-repeated-call" not in reply.headers


@pytest.mark.parametrize("extra", [{"top_k": 3, "mirostat": 2}])
def test_a_strict_server_refuses_what_it_would_ignore(extra):
    with running(ScriptedEngine([]), strict=True) as server, client(server) as each:
        with pytest.raises(openai.BadRequestError, match="mirostat"):
            each.chat.completions.create(**ASK, extra_body=extra)


@pytest.mark.parametrize("extra", [{"guided_choice": ["yes", "no"]}, {"structured_outputs": {"choice": ["yes", "no"]}}])
def test_a_choice_among_texts_is_scored_and_told_as_it_is(extra):
    engine = ScriptedEngine([Fill("It is dark", "no")])
    with running(engine) as server, client(server) as each:
        done = each.chat.completions.create(**ASK, extra_body=extra | {"agentform": {"evidence": True}})
    message = done.choices[0].message
    assert message.content == "no"
    assert message.model_extra["agentform"]["output"][0]["probability"] > 0.5
