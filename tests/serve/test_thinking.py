"""Models that think, over HTTP: thoughts apart from answers, whole and streamed, as the request asks for them."""

from __future__ import annotations

import json

import openai
import pytest

from tests.support.servers import running
from tests.support.thinker import OPENED, SWITCH, thinker

USER = [{"role": "user", "content": "How is it?"}]
PLACE = {"type": "object", "properties": {"place": {"enum": ["in", "out"]}}, "required": ["place"]}
WEATHER = {"type": "function", "function": {"name": "weather", "parameters": PLACE}}
FORM = {"type": "json_schema", "json_schema": {"name": "place", "schema": PLACE, "strict": True}}


def create(engine, **options):
    body = {"model": "recording", "messages": USER, **options}
    with running(engine) as server:
        client = openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0)
        with client:
            made = client.chat.completions.create(**body)
            return list(made) if options.get("stream") else made


def streamed(engine, **options):
    """The deltas of a stream, put together: thought, content, arguments, and the usage."""
    chunks = create(engine, stream=True, stream_options={"include_usage": True}, **options)
    deltas = [chunk.choices[0].delta for chunk in chunks if chunk.choices]
    thought = "".join(getattr(delta, "reasoning_content", None) or "" for delta in deltas)
    content = "".join(delta.content or "" for delta in deltas)
    calls = [call.function.arguments for delta in deltas for call in delta.tool_calls or ()]
    order = ["thought" if getattr(delta, "reasoning_content", None) else "content" for delta in deltas[1:-1]]
    assert order == sorted(order, reverse=True)
    return thought, content, "".join(calls), chunks[-1].usage


@pytest.mark.parametrize("endless", [False, True])
def test_a_streams_thought_comes_first_and_is_that_of_the_whole_answer(tmp_path, endless):
    engine = thinker(tmp_path)
    engine.endless = endless
    done = create(engine)
    [choice] = done.choices
    thought, content, _, usage = streamed(engine)
    assert (content, thought) == (choice.message.content, choice.message.reasoning_content)
    assert content == "Fine."
    assert thought.startswith("hello the world")
    assert thought.endswith("act on it.") == endless
    assert usage.completion_tokens_details.reasoning_tokens == 5
    assert done.usage.completion_tokens_details.reasoning_tokens == 5


def test_a_call_comes_after_the_thought_with_nothing_of_it_in_the_content(tmp_path):
    engine = thinker(tmp_path)
    [choice] = create(engine, tools=[WEATHER]).choices
    [call] = choice.message.tool_calls
    thought, content, arguments, _ = streamed(engine, tools=[WEATHER])
    assert (choice.message.content, content) == (None, "")
    assert thought == choice.message.reasoning_content == "hello the world"
    assert json.loads(arguments) == json.loads(call.function.arguments) == {"place": "out"}


def test_a_form_is_filled_after_the_thought_and_holds_nothing_of_it(tmp_path):
    engine = thinker(tmp_path)
    [choice] = create(engine, response_format=FORM).choices
    thought, content, _, _ = streamed(engine, response_format=FORM)
    assert json.loads(content) == json.loads(choice.message.content) == {"place": "out"}
    assert thought == choice.message.reasoning_content == "hello the world"
    asked = [engine.tokenizer.decode(request.prompt_ids) for request in engine.scored if not request.aside]
    assert all("hello the world\n</think>" in prompt for prompt in asked)


@pytest.mark.parametrize("template", [OPENED, SWITCH])
@pytest.mark.parametrize(
    "asked",
    [
        {"reasoning_effort": "none"},
        {"extra_body": {"chat_template_kwargs": {"enable_thinking": False}}},
        {"reasoning_effort": "high", "extra_body": {"chat_template_kwargs": {"enable_thinking": False}}},
    ],
)
def test_thinking_that_is_switched_off_is_closed_by_the_template(tmp_path, template, asked):
    engine = thinker(tmp_path, template)
    [choice] = create(engine, **asked).choices
    assert choice.message.content == "Fine."
    assert not hasattr(choice.message, "reasoning_content")
    assert engine.tokenizer.decode(engine.generated[0].prompt_ids).endswith("<think>\n\n</think>\n\n")


def test_the_effort_bounds_the_thought_and_the_template_is_told_of_it(tmp_path):
    template = "{{ reasoning_effort | default('unsaid') }}|" + OPENED.replace(
        "enable_thinking is defined", "reasoning_effort != 'high' and enable_thinking is defined"
    )
    engine = thinker(tmp_path, template)
    for effort in ("minimal", "high", None):
        create(engine, **({} if effort is None else {"reasoning_effort": effort}))
    bounds = [request.max_tokens for request in engine.generated if "</think>" in request.stop]
    assert bounds[0] < bounds[2] <= bounds[1]
    told = [engine.tokenizer.decode(r.prompt_ids).split("|")[0] for r in engine.generated if "</think>" in r.stop]
    assert [text.removeprefix("<|endoftext|>") for text in told] == ["minimal", "high", "unsaid"]


def test_a_thought_goes_back_as_the_template_keeps_it(tmp_path):
    engine = thinker(tmp_path)
    call = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"place": "in"}'}}
    past = [
        {"role": "assistant", "content": None, "reasoning_content": "hello the world", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": "sunny"},
    ]
    create(engine, messages=[*USER, *past], tools=[WEATHER], tool_choice="none")
    prompt = engine.tokenizer.decode(engine.generated[0].prompt_ids)
    assert prompt.count("<think>\nhello the world\n</think>") == 1
    create(engine, messages=[*USER, *past, {"role": "user", "content": "And?"}], tools=[WEATHER], tool_choice="none")
    prompt = engine.tokenizer.decode(engine.generated[2].prompt_ids)
    assert "hello the world" not in prompt
