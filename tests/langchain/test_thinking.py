"""Models that think: the thought is a reasoning block, whole and streamed, and no part of content, calls or forms."""

from __future__ import annotations

from functools import reduce
from operator import add
from typing import Literal

import pytest
from langchain_core.exceptions import ModelInvalidRequestError
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from pydantic import BaseModel

from agentform import Limits, Reasoning
from langchain_agentform import ChatAgentform
from langchain_agentform.messages import to_messages
from tests.support.thinker import thinker

THOUGHT = "hello the world"


class Place(BaseModel):
    """Where it is."""

    place: Literal["in", "out"]


def weather(place: Literal["in", "out"]) -> str:
    """Says how it is."""
    return place


def model_of(folder, **options):
    engine = thinker(folder)
    return ChatAgentform(engine=engine, **options), engine


def both(model, prompt):
    """The message, and what the chunks of a stream make when they are put together."""
    return [model.invoke(prompt), reduce(add, model.stream(prompt))]


def test_a_thought_is_a_reasoning_block_before_the_text(tmp_path):
    model, _ = model_of(tmp_path)
    for message in both(model, "How is it?"):
        blocks = [block for block in message.content_blocks if block["type"] in ("reasoning", "text")]
        assert [(block["type"], block.get("reasoning") or block.get("text")) for block in blocks] == [
            ("reasoning", THOUGHT),
            ("text", "Fine."),
        ]
        assert message.additional_kwargs == {"reasoning_content": THOUGHT}
        assert message.usage_metadata["output_token_details"] == {"reasoning": 5}


def test_a_thought_cut_off_at_its_limit_is_the_same_in_a_stream(tmp_path):
    model, engine = model_of(tmp_path, reasoning=Reasoning(max_tokens=3))
    engine.endless = True
    whole, streamed = (message.additional_kwargs["reasoning_content"] for message in both(model, "How is it?"))
    assert whole == streamed
    assert whole.startswith(THOUGHT + "\n\n")


def test_a_call_after_a_thought_goes_back_as_the_template_keeps_it(tmp_path):
    model, engine = model_of(tmp_path)
    for message in both(model.bind_tools([weather]), "How is it?"):
        [call] = message.tool_calls
        assert (call["args"], message.text) == ({"place": "out"}, "")
        result = ToolMessage("sunny", tool_call_id=call["id"])
        [_, own, _] = to_messages([HumanMessage("How is it?"), message, result])
        assert (own.reasoning, own.content) == (THOUGHT, "")
        engine.calls = False
        model.bind_tools([weather]).invoke([HumanMessage("How is it?"), message, result])
        prompt = engine.tokenizer.decode(engine.generated[-2].prompt_ids)
        assert prompt.count(f"<think>\n{THOUGHT}\n</think>") == 1
        engine.calls = True


def test_a_thought_of_another_model_is_not_taken_for_one_of_this_model():
    other = AIMessage("Fine.", additional_kwargs={"reasoning_content": "hm"}, response_metadata={"thought": True})
    foreign = AIMessage([{"type": "reasoning", "reasoning": "hm"}, {"type": "text", "text": "Fine."}])
    [_, first, second] = to_messages([HumanMessage("x"), other, foreign])
    assert (first.content, second.content, second.reasoning) == ("Fine.", "Fine.", "")


@pytest.mark.parametrize("method", ["json_schema", "json_mode", "function_calling"])
def test_structured_output_comes_after_the_thought_and_holds_nothing_of_it(tmp_path, method):
    model, engine = model_of(tmp_path)
    if method == "json_mode":
        engine._value = '{"place": "out"}'
    form = model.with_structured_output(Place, method=method, include_raw=True)
    for found in (form.invoke("How is it?"), list(form.stream("How is it?"))[-1]):
        raw = found.get("raw")
        if raw is not None:
            assert THOUGHT in raw.additional_kwargs["reasoning_content"]
            assert THOUGHT not in raw.text
    assert model.with_structured_output(Place, method=method).invoke("How is it?") == Place(place="out")
    asked = [engine.tokenizer.decode(request.prompt_ids) for request in engine.scored if not request.aside]
    assert asked
    assert all(f"{THOUGHT}\n</think>" in prompt for prompt in asked)


def test_with_tools_and_a_form_the_note_after_a_thought_is_reasoning_too(tmp_path):
    model, engine = model_of(tmp_path)
    engine.calls = False
    model = model.bind_tools([weather], response_format={"type": "json_schema", "json_schema": _SCHEMA})
    whole, streamed = both(model, "How is it?")
    assert whole.additional_kwargs == streamed.additional_kwargs
    assert whole.additional_kwargs["reasoning_content"].split() == [*THOUGHT.split(), "Fine."]
    assert whole.content == streamed.content == '{"place": "out"}'


_SCHEMA = {"name": "place", "schema": Place.model_json_schema()}


@pytest.mark.parametrize("asked", [{"reasoning_effort": "none"}, {"chat_template_kwargs": {"enable_thinking": False}}])
def test_one_call_may_ask_for_no_thought(tmp_path, asked):
    model, engine = model_of(tmp_path, reasoning=Reasoning(max_tokens=9), limits=Limits(answer_tokens=8))
    message = model.invoke("How is it?", **asked)
    assert (message.content, message.additional_kwargs) == ("Fine.", {})
    assert engine.tokenizer.decode(engine.generated[0].prompt_ids).endswith("<think>\n\n</think>\n\n")
    assert model.invoke("How is it?").additional_kwargs == {"reasoning_content": THOUGHT}
    assert engine.generated[1].max_tokens == 9


@pytest.mark.parametrize("asked", [{"reasoning_effort": 3}, {"chat_template_kwargs": "no"}])
def test_what_is_no_way_of_thinking_is_refused(tmp_path, asked):
    model, _ = model_of(tmp_path)
    with pytest.raises(ModelInvalidRequestError, match=next(iter(asked))):
        model.invoke("How is it?", **asked)
