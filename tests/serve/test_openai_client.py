"""The openai package against a real server."""

from __future__ import annotations

import json
from typing import Literal

import openai
import pytest
from pydantic import BaseModel

from agentform.testing import Call, Fill, Say, ScriptedEngine
from tests.support.servers import running

USER = [{"role": "user", "content": "It is dark in the office."}]
ARGUMENTS = {"room": "office", "on": True}
SWITCH = Call("light", ARGUMENTS, text="I switch it on.")
LIGHT = {
    "type": "function",
    "function": {
        "name": "light",
        "description": "Switch the light in a room.",
        "parameters": {
            "type": "object",
            "properties": {"room": {"enum": ["kitchen", "office"]}, "on": {"type": "boolean"}},
            "required": ["room", "on"],
            "additionalProperties": False,
        },
    },
}
NOTE = {
    "type": "function",
    "function": {"name": "note", "parameters": {"type": "object", "properties": {"text": {"type": "string"}}}},
}


class Mood(BaseModel):
    """How somebody feels."""

    mood: Literal["good", "bad"]
    why: str


def client(server, **options) -> openai.OpenAI:
    return openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0, **options)


def create(engine, **options):
    with running(engine) as server, client(server) as each:
        return each.chat.completions.create(**{"model": "scripted", "messages": USER, **options})


def prompt_of(engine, at: int = 0) -> str:
    return engine.tokenizer.decode(engine.requests[at].prompt_ids)


def test_an_answer_has_text_usage_and_a_reason_for_its_end():
    engine = ScriptedEngine([Say("Hello there.")])
    done = create(engine)
    [choice] = done.choices
    assert (choice.message.role, choice.message.content, choice.finish_reason) == ("assistant", "Hello there.", "stop")
    assert choice.message.tool_calls is None
    assert (done.model, done.object, done.system_fingerprint) == ("scripted", "chat.completion", "fp_scripted")
    assert done.usage.prompt_tokens == len(engine.requests[0].prompt_ids)
    assert done.usage.completion_tokens == len("Hello there.") + 1
    assert done.usage.total_tokens == done.usage.prompt_tokens + done.usage.completion_tokens
    assert done.usage.prompt_tokens_details.cached_tokens == 0
    assert done.usage.completion_tokens_details.reasoning_tokens == 0


def test_a_call_is_valid_and_its_free_text_is_reasoning():
    done = create(ScriptedEngine([SWITCH]), tools=[LIGHT, NOTE])
    [choice] = done.choices
    [call] = choice.message.tool_calls
    assert (choice.finish_reason, choice.message.content) == ("tool_calls", None)
    assert choice.message.reasoning_content == "I switch it on."
    assert (call.type, call.function.name, json.loads(call.function.arguments)) == ("function", "light", ARGUMENTS)
    assert done.usage.completion_tokens_details.reasoning_tokens == done.usage.completion_tokens == 16


@pytest.mark.parametrize(
    ("step", "options", "names"),
    [
        (Say("No."), {"tool_choice": "none"}, []),
        (Say("No."), {"tool_choice": "auto"}, []),
        (Call("note", {"text": "x"}), {"tool_choice": "auto"}, ["note"]),
        (Call("note", {"text": "x"}, text="I would not."), {"tool_choice": "required"}, ["note"]),
        (Call("note", {"text": "x"}), {"tool_choice": {"type": "function", "function": {"name": "note"}}}, ["note"]),
        (Call("note", {"text": "x"}), {"reasoning_effort": "none"}, ["note"]),
    ],
)
def test_tool_choice_says_what_a_turn_may_come_to(step, options, names):
    done = create(ScriptedEngine([step]), tools=[LIGHT, NOTE], **options)
    assert [call.function.name for call in done.choices[0].message.tool_calls or []] == names


def test_history_with_calls_and_results_of_every_role_reaches_the_model():
    engine = ScriptedEngine([SWITCH, Say("It is on.")])
    with running(engine) as server, client(server) as each:
        system = [{"role": "developer", "content": [{"type": "text", "text": "Be brief."}]}]
        first = each.chat.completions.create(model="scripted", messages=system + USER, tools=[LIGHT])
        message = first.choices[0].message
        result = {"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": "Switched."}
        history = [*system, *USER, message, result]
        done = each.chat.completions.create(model="scripted", messages=history, tools=[LIGHT])
    assert done.choices[0].message.content == "It is on."
    prompt = engine.tokenizer.decode(engine.requests[-1].prompt_ids)
    assert prompt.startswith("<|im_start|>system\nBe brief.\n\nYou can call these tools:\n- light")
    assert 'I switch it on.\n<tool_call>\n{"name": "light", "arguments": {"room": "office", "on": true}}' in prompt
    assert "<tool_response>\nSwitched.\n</tool_response>" in prompt


def test_a_stream_holds_the_same_as_the_whole_answer():
    engine = ScriptedEngine([Say("  Hello { there. \n"), SWITCH])
    with running(engine) as server, client(server) as each:
        options = {"model": "scripted", "messages": USER, "tools": [LIGHT], "stream_options": {"include_usage": True}}
        chunks = list(each.chat.completions.create(stream=True, **options))
        with each.chat.completions.stream(**options) as stream:
            final = stream.get_final_completion()
    assert chunks[0].choices[0].delta.role == "assistant"
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == "Hello { there."
    assert [c.choices[0].finish_reason for c in chunks if c.choices][-2:] == [None, "stop"]
    assert (chunks[-1].choices, chunks[-1].usage.completion_tokens > 5) == ([], True)
    assert len({c.id for c in chunks}) == 1
    message = final.choices[0].message
    assert (message.content, final.choices[0].finish_reason) == (None, "tool_calls")
    assert message.model_extra["reasoning_content"] == "I switch it on."
    assert json.loads(message.tool_calls[0].function.arguments) == ARGUMENTS
    assert final.usage.completion_tokens_details.reasoning_tokens == 16


@pytest.mark.parametrize(("parallel", "names"), [(True, ["light", "note"]), (False, ["light"])])
def test_several_calls_in_one_turn_are_numbered_where_they_are_allowed(parallel, names):
    step = Call("light", ARGUMENTS, text="Both.", also=[Call("note", {"text": "dark"})])
    with running(ScriptedEngine([step])) as server, client(server) as each:
        options = {"model": "scripted", "messages": USER, "tools": [LIGHT, NOTE], "parallel_tool_calls": parallel}
        with each.chat.completions.stream(**options) as stream:
            message = stream.get_final_completion().choices[0].message
    assert [call.function.name for call in message.tool_calls] == names
    assert len({call.id for call in message.tool_calls}) == len(names)


def test_a_call_written_as_prose_is_streamed_as_a_call_only():
    prose = 'So:\n```json\n{"name": "light", "arguments": {"room": "office", "on": true}}\n```'
    with running(ScriptedEngine([Say(prose)])) as server, client(server) as each:
        options = {"model": "scripted", "messages": USER, "tools": [LIGHT], "stream": True}
        chunks = list(each.chat.completions.create(**options))
    assert "".join(c.choices[0].delta.content or "" for c in chunks) == ""
    assert "".join((c.choices[0].delta.model_extra or {}).get("reasoning_content", "") for c in chunks) == "So:"
    assert chunks[-1].choices[0].finish_reason == "tool_calls"


def test_structured_outputs_are_parsed():
    engine = ScriptedEngine([Fill("It is dark", {"mood": "bad", "why": "dark"})])
    with running(engine) as server, client(server) as each:
        done = each.chat.completions.parse(model="scripted", messages=USER, response_format=Mood)
        with each.chat.completions.stream(model="scripted", messages=USER, response_format=Mood) as stream:
            streamed = stream.get_final_completion()
    assert done.choices[0].message.parsed == streamed.choices[0].message.parsed == Mood(mood="bad", why="dark")
    assert done.choices[0].finish_reason == "stop"


def test_beside_a_form_free_text_is_shown_only_before_a_call():
    options = {"model": "scripted", "messages": USER, "tools": [LIGHT], "response_format": _format(Mood)}
    options["extra_body"] = {"reasoning_format": "none"}
    with running(ScriptedEngine([SWITCH])) as server, client(server) as each:
        chunks = list(each.chat.completions.create(stream=True, **options))
    contents = [c.choices[0].delta.content for c in chunks if c.choices[0].delta.content]
    assert contents == ["I switch it on."]
    assert chunks[-1].choices[0].finish_reason == "tool_calls"


def test_json_mode_gives_an_object():
    engine = ScriptedEngine([Fill("It is dark", {"anything": [1]})])
    done = create(engine, response_format={"type": "json_object"})
    assert json.loads(done.choices[0].message.content) == {"anything": [1]}


def test_limits_cut_an_answer_and_never_half_a_call():
    engine = ScriptedEngine([Say("A long answer."), Call("note", {"text": "x" * 99}, text="So."), SWITCH])
    with running(engine) as server, client(server) as each:
        cut = each.chat.completions.create(model="scripted", messages=USER, max_completion_tokens=6)
        call = each.chat.completions.create(model="scripted", messages=USER, tools=[NOTE], max_tokens=20)
    assert (cut.choices[0].message.content, cut.choices[0].finish_reason) == ("A long", "length")
    assert (call.choices[0].finish_reason, call.choices[0].message.tool_calls) == ("length", None)
    message = call.choices[0].message
    assert (message.content, message.reasoning_content, call.usage.completion_tokens) == ("", "So.", 20)


def test_a_form_that_is_cut_off_is_told_by_the_client():
    engine = ScriptedEngine([Fill("It is dark", {"mood": "bad", "why": "x" * 99})])
    with running(engine) as server, client(server) as each, pytest.raises(openai.LengthFinishReasonError):
        each.chat.completions.parse(model="scripted", messages=USER, response_format=Mood, max_tokens=9)


def test_sampling_stop_and_conversation_reach_the_engine():
    engine = ScriptedEngine([Say("One. Two."), Say("x"), Say("y"), Say("z")])
    with running(engine) as server, client(server) as each:
        options = {"model": "scripted", "messages": USER}
        done = each.chat.completions.create(
            **options, stop=[" Two"], temperature=0.5, top_p=0.9, seed=3, prompt_cache_key="k", user="u"
        )
        each.chat.completions.create(**options, user="u")
        each.chat.completions.create(**options, metadata={"conversation_id": "m"})
        each.chat.completions.create(**options, user="u", extra_headers={"X-Conversation-Id": "h"})
    assert (done.choices[0].message.content, done.choices[0].finish_reason) == ("One.", "stop")
    sampling = engine.requests[0].sampling
    assert (sampling.temperature, sampling.top_p, sampling.seed) == (0.5, 0.9, 3)
    assert [request.conversation for request in engine.requests] == ["k", None, "m", "h"]


@pytest.mark.anyio
async def test_the_asynchronous_client_streams_too():
    with running(ScriptedEngine([Say("Hello there."), SWITCH])) as server:
        async with openai.AsyncOpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0) as each:
            stream = await each.chat.completions.create(model="scripted", messages=USER, stream=True)
            text = "".join([chunk.choices[0].delta.content or "" async for chunk in stream])
            done = await each.chat.completions.create(model="scripted", messages=USER, tools=[LIGHT])
    assert text == "Hello there."
    assert done.choices[0].message.tool_calls[0].function.name == "light"


def test_models_are_listed():
    with running(ScriptedEngine([]), served_name="org/my-model") as server, client(server) as each:
        assert [model.id for model in each.models.list()] == ["org/my-model"]
        assert each.models.retrieve("org/my-model").owned_by == "agentform"
        with pytest.raises(openai.NotFoundError):
            each.models.retrieve("other")


def test_decisions_of_every_kind_come_in_the_order_asked():
    value = {"urgent": True, "team": "bulbs", "answer_3": "high", "team_": "other"}
    engine = ScriptedEngine([Fill("It is dark", value)], probability=0.8)
    levels = [{"label": "low"}, {"label": "middle"}, {"label": "high", "description": "nobody can work"}]
    teams = [{"value": "bulbs", "description": "light"}, {"value": "other"}]
    questions = [
        {"type": "predicate", "name": "urgent", "instructions": "It is urgent."},
        {"type": "choice", "name": "team", "instructions": "Who?", "choices": teams},
        {"type": "score", "instructions": "How bad?", "levels": levels},
        {"type": "choice", "name": "team", "instructions": "Who else?", "choices": teams},
    ]
    said = [
        {"role": "user", "content": [{"type": "input_text", "text": "It is dark"}]},
        {"type": "function_call", "call_id": "c", "name": "light", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": "no bulb"},
    ]
    with running(engine) as server, client(server) as each:
        done = each.decisions.create(model="scripted", input=said, questions=questions)
    predicate, team, score, other = done.answers
    assert [answer.name for answer in done.answers] == ["urgent", "team", None, "team"]
    assert predicate.probability == pytest.approx(0.8)
    assert (team.choice, team.confidence, other.choice) == ("bulbs", pytest.approx(0.8), "other")
    assert score.score == pytest.approx(0.1 + 2 * 0.8)
    assert [row.label for row in score.probabilities] == ["low", "middle", "high"]
    assert (done.usage.output_tokens, done.usage.input_tokens > 50) == (0, True)
    assert "no bulb" in prompt_of(engine)
    for line in (
        "- urgent: It is urgent.",
        "- team: Who? (bulbs: light)",
        "- answer_3: How bad? (high: nobody can work)",
    ):
        assert line in prompt_of(engine)


def test_a_decisions_instructions_are_one_message_with_those_of_the_input():
    engine = ScriptedEngine([Fill("It is dark", {"answer_1": True})])
    said = [{"role": "developer", "content": "Be fair."}, {"role": "user", "content": "It is dark"}]
    questions = [{"type": "predicate", "instructions": "It is urgent."}]
    with running(engine) as server, client(server) as each:
        each.decisions.create(model="scripted", input=said, questions=questions)
    prompt = prompt_of(engine)
    assert prompt.startswith("<|im_start|>system\nBe fair.\n- answer_1: It is urgent.<|im_end|>")
    assert prompt.count("<|im_start|>system") == 1


@pytest.mark.parametrize(
    ("options", "error", "code", "param"),
    [
        ({"model": "other"}, openai.NotFoundError, "model_not_found", "model"),
        ({"n": 99}, openai.BadRequestError, "invalid_value", "n"),
        ({"extra_body": {"topp": 0.5}}, openai.BadRequestError, "unknown_parameter", "topp"),
        ({"messages": []}, openai.BadRequestError, "invalid_value", "messages"),
        ({"top_logprobs": 2}, openai.BadRequestError, "invalid_value", "top_logprobs"),
        ({"messages": [{"role": "system", "content": "x"}]}, openai.BadRequestError, "invalid_value", "messages"),
        (
            {"messages": [{"role": "user", "content": "x" * 70_000}]},
            openai.BadRequestError,
            "context_length_exceeded",
            None,
        ),
        ({"tools": [LIGHT, LIGHT]}, openai.BadRequestError, "invalid_value", "tools[1].function.name"),
    ],
)
def test_errors_are_the_clients_own_and_name_the_field(options, error, code, param):
    with pytest.raises(error) as caught:
        create(ScriptedEngine([]), **options)
    assert (caught.value.code, caught.value.param) == (code, param)
    assert caught.value.request_id.startswith("req_")


def test_an_error_before_the_first_word_of_a_stream_has_a_status_of_its_own():
    with pytest.raises(openai.BadRequestError):
        create(ScriptedEngine([], context_tokens=10), stream=True)


def _format(model: type[BaseModel]) -> dict:
    schema = model.model_json_schema()
    return {"type": "json_schema", "json_schema": {"name": model.__name__, "schema": schema, "strict": True}}
