"""Every text, and every refusal, is the one that transformers' own renderer gives, as it is since 5.24."""

from __future__ import annotations

import dataclasses
import datetime as dates
import enum
import re
import subprocess
import sys

import numpy as np
import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jinja2 import TemplateError
from packaging.version import Version
from transformers import __version__ as transformers_version
from transformers.utils import chat_template_utils as theirs

from agentform.errors import InvalidRequest
from agentform.runtime.tokenizer import template_environment as ours
from agentform.runtime.tokenizer.chat_template import ChatTemplate
from tests.support.chat_templates import TEMPLATES
from tests.support.tiny_tokenizer import CHATML, CHATML_WITH_TOOLS, write_tiny_tokenizer

# Earlier ones let templates call methods of what they are given, and know fewer names for a message's reasoning.
pytestmark = pytest.mark.skipif(Version(transformers_version) < Version("5.24"), reason="renders as transformers 5.24")

NAMED = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<|é|>"}
ALL = {**TEMPLATES, "chatml": CHATML, "chatml with tools": CHATML_WITH_TOOLS}


def user(text):
    return {"role": "user", "content": text}


def says(text, **more):
    return {"role": "assistant", "content": text, **more}


def call(name, arguments, **more):
    return {"id": "zqzqzqzqz", "type": "function", "function": {"name": name, "arguments": arguments}, **more}


NESTED = {
    "type": "function",
    "function": {
        "name": "book_<trip>",
        "description": "Bücht \"eine\" Reise & mehr <b>日本</b>\n\t'so' \\ \u2028 🚀",
        "parameters": {
            "type": "object",
            "properties": {
                "legs": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {
                            "to": {"type": "string", "enum": ["Köln", "a < b", "it's"]},
                            "seats": {"type": "integer", "minimum": 0, "default": 1e-7},
                        },
                    },
                },
                "when": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/day"}], "default": None},
                "return": {"type": "boolean", "default": False},
            },
            "required": [],
        },
        "return": {"type": "number"},
    },
}
BARE = {"type": "function", "function": {"name": "now", "description": "", "parameters": {}}}
CONVERSATIONS = [
    [user("hello")],
    [{"role": "system", "content": " <b>be</b> brief & kind \n"}, user("  a < b && 'c' \"d\"\t")],
    [user("Münster 🚀 日本 \u2028 \x00\x7f"), says("<think>hm\n</think>\n\nok"), user("{{ 7 * 7 }}{% raw %}")],
    [user("go"), says("", tool_calls=[call("book", {"to": "Köln <", "n": 1.0, "deep": [{"x": [None, True]}]})])],
    [
        user("go"),
        says("two", reasoning="why\n", tool_calls=[call("a", '{"x": 1}'), call("b", {"<é>": -0.0})], refusal=None),
        {"role": "tool", "name": "a", "tool_call_id": "1", "content": '{"sky": "<&>"}'},
        {"role": "tool", "content": {"content": ["x"]}},
        says("done", thinking="so"),
    ],
    [user("1"), says("2", reasoning_content="r", thinking="t"), user("3"), says("4", reasoning=""), user("5")],
    [user([{"type": "text", "text": "part <1>"}, {"type": "image"}])],
    [{"role": "critic", "content": "unknown role"}],
    [{"role": "user"}],
    [{"content": None, "role": "user"}],
]
TOOLS = [None, [], [NESTED], [NESTED, BARE]]


def reference(source, messages, tools, prompt):
    present = [{key: value for key, value in message.items() if value is not None} for message in messages]
    texts, _ = theirs.render_jinja_template([present], tools, None, source, add_generation_prompt=prompt, **NAMED)
    return texts[0]


def assert_same(source, messages, tools=None, prompt=True):
    """The text of both; `None` where both refuse, for the same reason."""
    template = ChatTemplate({"default": source}, NAMED)
    refusal, expected = None, None
    try:
        expected = reference(source, messages, tools, prompt)
    except (TemplateError, TypeError) as error:
        refusal = str(error)
    if refusal is not None:
        with pytest.raises(InvalidRequest, match=re.escape(refusal)):
            template.render(messages, tools, generation_prompt=prompt)
        return None
    text = template.render(messages, tools, generation_prompt=prompt)
    assert text.encode("utf-8", "surrogatepass") == expected.encode("utf-8", "surrogatepass")
    return text


@pytest.fixture(autouse=True)
def frozen(monkeypatch):
    """Both renderers live on the same day."""

    class Then(dates.datetime):
        @classmethod
        def now(cls, tz=None):
            return cls(2024, 2, 29, 12, 30)

    monkeypatch.setattr(theirs, "datetime", Then)
    monkeypatch.setattr(ours, "datetime", Then)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("at", range(len(CONVERSATIONS)))
def test_a_conversation_is_rendered_as_transformers_renders_it(name, at):
    for tools in TOOLS:
        for prompt in (True, False):
            assert_same(ALL[name], CONVERSATIONS[at], tools, prompt)


def test_most_of_those_conversations_are_rendered_at_all():
    """A template that refused everything would compare nothing."""
    for name, source in ALL.items():
        rendered = [assert_same(source, messages, [NESTED]) for messages in CONVERSATIONS]
        assert sum(text is not None for text in rendered) >= 4, name


def test_the_date_is_todays():
    assert "Today Date: 29 Feb 2024\n" in assert_same(TEMPLATES["llama"], [user("hi")])


def test_apply_chat_template_gives_the_same(tmp_path):
    from transformers import AutoTokenizer

    folder = write_tiny_tokenizer(tmp_path, template=TEMPLATES["qwen"])
    template = ChatTemplate.of_folder(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    for messages in CONVERSATIONS[:5]:
        options = {"tools": [NESTED], "add_generation_prompt": True, "tokenize": False}
        expected = tokenizer.apply_chat_template(messages, **options)
        assert template.render(messages, [NESTED], generation_prompt=True) == expected


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("{{ raise_exception('no <system>') }}", "no <system>"),
        ("{% if %}", "Expected an expression"),
        ("{% generation %}", "endgeneration"),
        ("{{ messages[0].content.nothing.more }}", "nothing"),
        ("{{ messages.append(1) }}", "unsafe"),
        ("{{ messages.__class__.__mro__ }}", "unsafe"),
        ("{{ messages[0].content | nothing }}", "No filter named"),
        ("{{ 1 + 'a' }}", "unsupported operand"),
        ("{{ undefined_thing | tojson }}", "not JSON serializable"),
    ],
)
def test_what_a_template_refuses_is_an_invalid_request(source, reason):
    assert assert_same(source, [user("hi")]) is None
    with pytest.raises(InvalidRequest, match=f"chat template refuses these messages: .*{reason}"):
        ChatTemplate({"default": source}, {}).render([user("hi")], None, generation_prompt=True)


@pytest.mark.parametrize(
    "source",
    [
        "{% set n = namespace(_a=1) %}",
        "{% set n = namespace() %}{% set n._a = 1 %}",
        "{{ dict.__class__() }}",
        "{{ namespace().__class__.__mro__[0] }}",
    ],
)
def test_the_way_out_of_the_sandbox_is_as_shut_as_it_is_in_transformers(source):
    with pytest.raises(TemplateError):
        reference(source, [user("hi")], None, True)
    with pytest.raises(InvalidRequest, match=r"underscore|unsafe|undefined|no attribute"):
        ChatTemplate({"default": source}, {}).render([user("hi")], None, generation_prompt=True)


class Role(enum.StrEnum):
    USER = "user"


class Level(enum.IntEnum):
    HIGH = 3


@dataclasses.dataclass
class Point:
    x: float
    tags: tuple[str, ...]


class Model(pydantic.BaseModel):
    city: str
    role: Role = Role.USER


@pytest.mark.parametrize(
    "value",
    [
        Role.USER,
        Level.HIGH,
        Point(1.5, ("a", "b")),
        Point,
        Model(city="Köln"),
        (1, (2, [3])),
        {1: "a", None: "b", Role.USER: "c", 2.5: "d", False: "e"},
        [np.float64(0.1), np.float32(0.1), np.int64(7), np.bool_(False), np.str_("s"), np.arange(3)],
        dates.date(2024, 1, 2),
        b"bytes",
        {1, 2},
        float("nan"),
        10**30,
        "\ud800",
        len,
    ],
)
def test_templates_see_plain_data_only(value):
    message = {"role": Role.USER, "content": value}
    text = assert_same("{{ messages }} {{ messages | tojson }} {{ '%s' | format(messages[0].role) }}", [message])
    assert text is not None
    assert assert_same("{{ tools }}{{ tools | tojson }}", [user("hi")], [{"default": value}]) is not None


def test_a_template_cannot_call_the_methods_of_what_it_is_given():
    class Secret:
        def reveal(self):
            raise AssertionError("called")

    assert assert_same("{{ messages[0].content.reveal() }}", [{"role": "user", "content": Secret()}]) is None


def test_a_tool_that_is_no_mapping_is_refused():
    with pytest.raises(InvalidRequest, match="a tool is described by a mapping, not by str"):
        ChatTemplate({"default": "x"}, {}).render([user("hi")], ["weather"], generation_prompt=True)


words = st.text(alphabet=st.sampled_from("ab <>&'\"\\/{}%#\n\t é日🚀\u2028\x00"), max_size=12)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=8,
)
messages = st.lists(
    st.fixed_dictionaries(
        {"role": st.sampled_from(["user", "assistant", "system", "tool"]), "content": words | json_values},
        optional={
            "reasoning": st.none() | words,
            "reasoning_content": st.none() | words,
            "thinking": words,
            "name": words,
            "tool_calls": st.lists(st.builds(call, words, st.dictionaries(words, json_values, max_size=2)), max_size=2),
        },
    ),
    min_size=1,
    max_size=4,
)
functions = st.fixed_dictionaries({"name": words, "description": words, "parameters": json_values})
tools = st.none() | st.lists(st.fixed_dictionaries({"type": st.just("function"), "function": functions}), max_size=2)


@given(name=st.sampled_from(sorted(ALL)), said=messages, tools=tools, prompt=st.booleans())
@settings(max_examples=200, deadline=None)
def test_whatever_is_said_is_rendered_as_transformers_renders_it(name, said, tools, prompt):
    if name != "llama":  # it asks for the date, which could change between the two
        assert_same(ALL[name], said, tools, prompt)


def test_a_template_is_rendered_without_transformers_and_torch(tmp_path):
    folder = write_tiny_tokenizer(tmp_path)
    program = f"""
import sys
from pathlib import Path
from agentform.runtime.tokenizer.hf_tokenizer import HFTokenizer
assert HFTokenizer(Path({str(folder)!r})).render([{{"role": "user", "content": "hello"}}])
assert not {{"transformers", "torch", "numpy"}} & sys.modules.keys()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    "source",
    [
        "{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}",
        "{% for i in range(99999) %}{% for j in range(99999) %}{{ 'x' }}{% endfor %}{% endfor %}",
        "{{ 'x' * 10000000000 }}",
        "{{ 10000000000 * 'x' }}",
        "{{ [0] * 100000 * 100000 }}",
        "{{ 9 ** 99 ** 99 }}",
        "{% macro again() %}{{ again() }}{% endmacro %}{{ again() }}",
        "{% set big = 'x' * 50000000 %}{% for i in range(1000) %}{{ big }}{% endfor %}",
    ],
)
def test_a_template_that_takes_all_there_is_is_refused(source):
    with pytest.raises(InvalidRequest):
        ChatTemplate({"default": source}, {}).render([{"role": "user", "content": "Hi."}], None, generation_prompt=True)
