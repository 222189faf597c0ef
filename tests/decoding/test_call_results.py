"""Results are bound to their calls by id, whatever order and shape they come in."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentform import Agent, Conversation, fill_sync, tool
from agentform.decoding.call_results import bound_results
from agentform.errors import InvalidInput
from agentform.messages import Message, ToolCall, ToolResult
from agentform.testing import Fill, Say, ScriptedEngine, prompts

USER = Message(role="user", content="hi")


def caller(*ids):
    calls = tuple(ToolCall(id=call_id, name=f"tool_{call_id}", arguments={}) for call_id in ids)
    return Message(role="assistant", calls=calls)


def result(call_id, content=None, name=""):
    content = content or f"result {call_id}"
    return Message(role="tool", content=content, result=ToolResult(call_id=call_id, name=name, content=content))


def shown(messages):
    return [(m.result.call_id, m.result.name) for m in bound_results(messages) if m.role == "tool" and m.result]


@given(st.permutations(["a", "b", "c", "d"]))
def test_results_come_in_the_order_of_the_calls_with_their_names(order):
    messages = [USER, caller("a", "b", "c", "d"), *map(result, order)]
    assert shown(messages) == [("a", "tool_a"), ("b", "tool_b"), ("c", "tool_c"), ("d", "tool_d")]


def test_what_stands_in_order_stays_as_it_is():
    messages = [USER, caller("a"), result("a", name="tool_a"), USER, caller("a", "b"), result("a", name="tool_a")]
    assert bound_results(messages) == messages


def test_results_of_other_calls_stay_behind_and_none_is_lost():
    messages = [USER, caller("a", "b"), result("old"), result("b"), result("b", "again"), result("a")]
    assert [m.content for m in bound_results(messages)[2:]] == ["result a", "result b", "result old", "again"]


def test_two_calls_that_share_an_id_take_its_results_one_after_the_other():
    messages = [USER, caller("a", "a"), result("a", "first"), result("a", "second")]
    assert [m.content for m in bound_results(messages)[2:]] == ["first", "second"]


def test_results_that_name_no_call_answer_them_in_order():
    messages = [USER, caller("a", "b"), Message(role="tool", content="1"), Message(role="tool", content="2")]
    assert shown(messages) == [("a", "tool_a"), ("b", "tool_b")]


def test_results_before_any_call_are_left_alone():
    assert bound_results([result("a"), USER]) == [result("a"), USER]


@given(st.lists(st.sampled_from([USER, caller("a", "b"), caller("a"), result("a"), result("b"), result("c")])))
def test_nothing_is_lost_added_or_moved_past_other_messages(messages):
    bound = bound_results(messages)
    assert [m.role for m in bound] == [m.role for m in messages]
    assert sorted(m.content for m in bound) == sorted(m.content for m in messages)
    assert [m.content for m in bound_results(bound)] == [m.content for m in bound]


def test_text_of_results_that_is_no_unicode_is_replaced_and_that_of_users_refused():
    assert bound_results([USER, caller("a"), result("a", "caf\udce9\0")])[2].content == "caf\ufffd\ufffd"
    with pytest.raises(InvalidInput, match=r"message 1 \(user\).*surrogate"):
        bound_results([USER, Message(role="user", content="caf\udce9")])


@pytest.mark.parametrize("value", [math.nan, "\ud800", {1, 2}, b"\xff"])
def test_past_arguments_that_are_no_json_are_made_so(value):
    call = ToolCall(id="a", name="f", arguments={"x": value})
    conversation = Conversation(messages=[USER, Message(role="assistant", calls=(call,)), result("a")])
    assert Agent(ScriptedEngine([Say("ok")])).run_sync("Go on", conversation=conversation).output == "ok"


def test_an_agent_and_a_form_see_them_in_order():
    messages = [USER, caller("a", "b"), result("b"), result("a"), USER]

    @tool
    def other() -> str:
        return "x"

    engine = ScriptedEngine([Say("ok"), Fill("hi", {"on": True})])
    Agent(engine, tools=[other]).run_sync(messages)
    schema = {"type": "object", "properties": {"on": {"type": "boolean"}}, "required": ["on"]}
    fill_sync(engine, messages, schema)
    for request in engine.requests:
        seen = engine.tokenizer.decode(request.prompt_ids)
        if "result a" in seen:
            assert seen.index("result a") < seen.index("result b")
    assert prompts(engine)
