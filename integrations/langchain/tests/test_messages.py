"""LangChain's messages as agentform's."""

from __future__ import annotations

import pytest
from langchain_core.exceptions import ModelInvalidRequestError
from langchain_core.messages import AIMessage, ChatMessage, FunctionMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.messages.tool import invalid_tool_call, tool_call

from agentform import Message
from agentform.errors import InvalidInput
from agentform.testing import Say, ScriptedEngine, prompts
from langchain_agentform import ChatAgentform
from langchain_agentform.errors import UnsupportedContent
from langchain_agentform.messages import to_messages

CALL = tool_call(name="add", args={"a": 1}, id="x1")
INVALID = invalid_tool_call(name="add", args='{"a": 1', id="x2", error="cut off")


def test_every_role_arrives_with_its_text():
    found = to_messages(
        [
            SystemMessage("Be kind."),
            HumanMessage([{"type": "text", "text": "Hel"}, "lo"], name="ann"),
            AIMessage("Hi."),
            ChatMessage("Go on.", role="user"),
        ]
    )
    assert [(m.role, m.content) for m in found] == [
        ("system", "Be kind."),
        ("user", "Hello"),
        ("assistant", "Hi."),
        ("user", "Go on."),
    ]


def test_calls_and_results_belong_together_whatever_the_vendor():
    content = [
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "text", "text": "I add."},
        {"type": "tool_use", "id": "x1", "name": "add", "input": {"a": 1}},
    ]
    said, result = to_messages([AIMessage(content, tool_calls=[CALL]), ToolMessage("2", tool_call_id="x1")])
    assert (said.content, said.calls[0].name, said.calls[0].arguments) == ("I add.", "add", {"a": 1})
    assert (result.result.call_id, result.result.name, result.content) == ("x1", "add", "2")


@pytest.mark.parametrize(("said", "seen"), [("no b", "Error: no b"), ("Error: no b", "Error: no b")])
def test_a_failed_result_says_so_to_the_model(said, seen):
    _, result = to_messages([AIMessage("", tool_calls=[CALL]), ToolMessage(said, tool_call_id="x1", status="error")])
    assert (result.content, result.result.is_error) == (seen, True)


def test_results_of_blocks_are_text_or_json():
    content = [{"type": "text", "text": "see "}, {"type": "json", "rows": [1]}]
    [result] = to_messages([ToolMessage(content, tool_call_id="x", name="add")])
    assert result.content == 'see {"type": "json", "rows": [1]}'


def test_a_broken_call_is_kept_only_if_it_was_answered():
    broken = AIMessage("", invalid_tool_calls=[INVALID])
    assert to_messages([broken])[0].calls == ()
    kept = to_messages([broken, ToolMessage("malformed", tool_call_id="x2", status="error")])[0].calls
    assert [(call.id, call.name, call.arguments) for call in kept] == [("x2", "add", {"a": 1})]


def test_a_call_without_an_id_gets_one():
    [said] = to_messages([AIMessage("", tool_calls=[tool_call(name="add", args={}, id=None)])])
    assert said.calls[0].id


def test_a_note_of_this_model_goes_back_to_where_it_was_and_no_other_reasoning_does():
    note = {"reasoning_content": "I think."}
    own, other = to_messages(
        [
            AIMessage("", tool_calls=[CALL], additional_kwargs=note, response_metadata={"model_provider": "agentform"}),
            AIMessage("", tool_calls=[CALL], additional_kwargs=note),
        ]
    )
    assert (own.content, other.content) == ("I think.", "")


@pytest.mark.parametrize(
    "block",
    [
        {"type": "image", "base64": "AAAA", "mime_type": "image/png"},
        {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
        {"type": "audio", "url": "https://example.org/a.wav"},
        {"type": "file", "file_id": "f"},
    ],
)
@pytest.mark.parametrize("kind", [HumanMessage, lambda content: ToolMessage(content, tool_call_id="x", name="add")])
def test_media_are_refused_by_name_and_place(block, kind):
    with pytest.raises(UnsupportedContent, match=f"message 1 .*{block['type']}") as caught:
        to_messages([SystemMessage("s"), kind([{"type": "text", "text": "what is it?"}, block])])
    assert isinstance(caught.value, ModelInvalidRequestError)
    assert isinstance(caught.value, InvalidInput)


def test_media_that_another_model_made_are_passed_over():
    [said] = to_messages([AIMessage(["Look: ", {"type": "image", "base64": "AAAA", "mime_type": "image/png"}])])
    assert said == Message(role="assistant", content="Look: ")


@pytest.mark.parametrize("message", [FunctionMessage("x", name="f"), ChatMessage("x", role="critic")])
def test_a_role_that_there_is_not_is_named(message):
    with pytest.raises(UnsupportedContent, match=r"there is no role '(function|critic)'"):
        to_messages([message])


@pytest.mark.parametrize(
    ("said", "read"),
    [
        ('{"path": "/tmp/x', {"path": "/tmp/x"}),
        ("nonsense", {"malformed": "nonsense"}),
        ("[1]", {"malformed": "[1]"}),
        ("null", {}),
        (None, {}),
    ],
)
def test_arguments_that_no_parser_took_are_read_as_far_as_they_go(said, read):
    bad = {"id": "1", "name": "f", "args": said, "error": "no JSON", "type": "invalid_tool_call"}
    message = AIMessage(content="", invalid_tool_calls=[bad])
    [made, _] = to_messages([message, ToolMessage("Error: no JSON", tool_call_id="1")])
    assert made.calls[0].arguments == read


def test_results_in_any_order_and_of_any_text_reach_the_model_in_order():
    engine = ScriptedEngine([Say("ok")])
    model = ChatAgentform(engine=engine)
    calls = [{"id": each, "name": f"tool_{each}", "args": {}} for each in ("a", "b")]
    results = [ToolMessage(f"result {each}\udce9", tool_call_id=each) for each in ("b", "a")]
    assert model.invoke([HumanMessage("hi"), AIMessage(content="", tool_calls=calls), *results]).content == "ok"
    seen = prompts(engine)[-1]
    assert seen.index("result a\ufffd") < seen.index("result b\ufffd")
