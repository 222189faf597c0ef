"""What is written for a call is what the template writes for it in the next turn, and is read back as that call."""

from __future__ import annotations

import functools

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from agentform.decoding.formats.parse import parse_calls
from agentform.decoding.formats.tags import guessed
from agentform.decoding.formats.types import Elements
from agentform.decoding.formats.write import WrittenCall, calls_text
from agentform.decoding.tool_format import conversation, learn_format, new_call_id
from agentform.messages import Message, ToolCall, ToolResult
from agentform.runtime.tokenizer.chat_template import ChatTemplate
from tests.support.call_templates import CALL_TEMPLATES

TYPES = {"string": str, "integer": int, "number": float, "boolean": bool, "null": type(None)}
KEYS = st.text("abcXYZ_", min_size=1, max_size=6)
TEXTS = st.text(st.characters(exclude_categories=["Cs", "Cc"], include_characters="\n\t\"'\\<>"), max_size=20)
SCALARS = st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.floats(-1e6, 1e6).filter(bool)
VALUES = st.recursive(
    SCALARS | TEXTS, lambda v: st.lists(v, max_size=3) | st.dictionaries(KEYS, v, max_size=3), max_leaves=5
)
ARGUMENTS = st.dictionaries(KEYS, VALUES, max_size=4)


@functools.cache
def learned(name):
    template = ChatTemplate({"default": CALL_TEMPLATES[name]}, {"bos_token": "<s>", "eos_token": "<|im_end|>"})
    return template, learn_format(template)


def type_of(value):
    if isinstance(value, dict | list):
        return "object" if isinstance(value, dict) else "array"
    return next(name for name, kind in TYPES.items() if type(value) is kind)


def schema_of(arguments):
    return {"type": "object", "properties": {key: {"type": type_of(value)} for key, value in arguments.items()}}


def strings(value):
    if isinstance(value, dict):
        return [text for item in value.values() for text in strings(item)]
    if isinstance(value, list):
        return [text for item in value for text in strings(item)]
    return [value] if isinstance(value, str) else []


def can_be_held(format, arguments):
    """Values that a style which escapes nothing cannot tell from its own marks are left out."""
    style = format.arguments
    marks = "<|\"'{}[],:"
    nested = [text for value in arguments.values() if not isinstance(value, str) for text in strings(value)]
    if not isinstance(style, Elements):
        return True
    if style.lists.kind == "tagged" and any(map(is_lost_in_tags, arguments.values())):
        return False
    bare = style.lists.kind == "bare"
    held = all(style.can_hold(v) and v == v.strip() for v in arguments.values() if isinstance(v, str))
    return held and not (bare and any(mark in text for text in nested for mark in marks))


def is_lost_in_tags(value, nested=False):
    """What reads as another value, since nothing says inside of tags what it is."""
    if isinstance(value, dict | list):
        items = value.values() if isinstance(value, dict) else value
        return (nested and not value) or any(is_lost_in_tags(item, nested=True) for item in items)
    return nested and (value is None or (isinstance(value, str) and (guessed(value) != value or "~" in value)))


@pytest.mark.parametrize("name", CALL_TEMPLATES)
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(arguments=ARGUMENTS, text=st.sampled_from(["", "One moment."]), num_calls=st.integers(1, 3))
def test_a_call_is_written_as_the_template_writes_it_and_read_back(name, arguments, text, num_calls):
    template, format = learned(name)
    assert format.native, format.reason
    assume(can_be_held(format, arguments))
    num_calls = num_calls if format.layout.max_calls is None else 1
    text = text if format.rules.content_with_calls else ""
    calls = [
        ToolCall(id=new_call_id(format, f"find_{at}", at), name=f"find_{at}", arguments=arguments)
        for at in range(num_calls)
    ]
    results = [
        Message(role="tool", content="ok", result=ToolResult(call_id=c.id, name=c.name, content="ok")) for c in calls
    ]
    asked = [Message(role="user", content="Hello?")]
    written = [WrittenCall(name=call.name, arguments=call.arguments, id=call.id) for call in calls]
    said = (format.text_open_with_calls if text else "") + text + calls_text(format, written, after_text=bool(text))

    answered = [*asked, Message(role="assistant", content=text, calls=tuple(calls)), *results]
    assert rendered(template, format, answered).startswith(rendered(template, format, asked) + said)
    turn = parse_calls(format, said, {call.name: schema_of(arguments) for call in calls})
    assert [(call.name, dict(call.arguments)) for call in turn.calls] == [(c.name, dict(c.arguments)) for c in calls]
    assert turn.text == text


def rendered(template, format, messages):
    prompt = conversation(format, messages)
    return template.render_text(prompt.messages, tools=prompt.tools, arguments=prompt.arguments)


@pytest.mark.parametrize("name", CALL_TEMPLATES)
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(text=st.text(max_size=40), mark=st.booleans(), cut=st.integers(0, 200))
def test_reading_never_raises(name, text, mark, cut):
    _, format = learned(name)
    call = calls_text(format, [WrittenCall(name="find", arguments={"a": text, "b": [1, {"c": None}]}, id="a1b2c3d4e")])
    parse_calls(format, (text + call + text) if mark else text, {"find": {}})
    parse_calls(format, call[:cut], {"find": {}})
    parse_calls(format, call[:cut] + text)
