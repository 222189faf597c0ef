"""Faults of a turn: deciding, writing arguments, ending."""

from __future__ import annotations

import json
from typing import Literal

import pytest

from agentform.agent.agent import Agent
from agentform.decoding.limits import Limits
from agentform.errors import ArgumentsTruncated
from agentform.grammar.compile import Compiler
from agentform.grammar.spec import GrammarSpec
from agentform.grammar.vocabulary import Vocabulary
from agentform.messages import Usage
from agentform.runtime.detokenizer import TextStream
from agentform.runtime.tokenizer.hf_tokenizer import HFTokenizer
from agentform.testing import Call, Say, ScriptedEngine
from tests.support.tiny_tokenizer import write_tiny_tokenizer

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend():
    return "asyncio"


def get() -> str:
    """Gets one."""
    return "one"


def get_all() -> str:
    """Gets all."""
    return "all"


def get_all_now() -> str:
    """Gets all at once."""
    return "now"


def note(text: str) -> str:
    """Notes a text."""
    return text


@pytest.mark.parametrize("name", ["get", "get_all", "get_all_now"])
async def test_fault_15_names_that_begin_alike_are_all_reachable(name):
    agent = Agent(ScriptedEngine([Call(name), Say("Done.")]), tools=[get, get_all, get_all_now])
    result = await agent.run("Hi")
    assert [call.name for call in result.calls] == [name]


@pytest.mark.parametrize("value", ["get", "get_all", "get_all_now"])
async def test_fault_15_options_that_begin_alike_are_all_reachable(value):
    def act(what: Literal["get", "get_all", "get_all_now"]) -> str:
        """Acts."""
        return what

    result = await Agent(ScriptedEngine([Call("act", {"what": value}), Say("Done.")]), tools=[act]).run("Hi")
    assert [call.arguments for call in result.calls] == [{"what": value}]


def test_fault_25_white_space_is_bounded(tmp_path):
    tokenizer = HFTokenizer(write_tiny_tokenizer(tmp_path))
    vocabulary = Vocabulary(tokenizer.tokenizer_json, size=tokenizer.vocabulary_size, eos_ids=tokenizer.eos_ids)
    schema = {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "boolean"}}}, "required": ["a"]}
    spec = GrammarSpec(kind="json_schema", text=json.dumps(schema))
    matcher = Compiler(vocabulary).compile(spec).matcher()
    [newline], [space] = tokenizer.encode("\n"), tokenizer.encode(" ")
    places = 0
    for token in tokenizer.encode('{"a": [true, false]}'):
        allowed = matcher.allowed()
        assert not allowed[newline]
        places += bool(allowed[space])
        matcher.accept(token)
    assert places <= 2  # after the colon and after the comma, once each
    assert matcher.is_complete()


async def test_fault_26_a_token_limit_inside_a_string_is_no_call():
    ran = []

    def send(text: str) -> None:
        """Sends a text."""
        ran.append(text)

    agent = Agent(ScriptedEngine([Call("send", {"text": "x" * 99})]), tools=[send], limits=Limits(argument_tokens=10))
    with pytest.raises(ArgumentsTruncated, match="/text"):
        await agent.run("Hi")
    assert ran == []


@pytest.mark.parametrize("cut", range(1, 8))
def test_fault_27_an_end_of_reasoning_may_be_cut_anywhere(cut):
    stream = TextStream(["</think>"])
    data = b"so it is</think>42"
    at = data.index(b"</think>") + cut
    assert stream.feed(data[:at]) + stream.feed(data[at:]) == "so it is"
    assert stream.stop == "</think>"


async def test_fault_27_the_end_of_reasoning_inside_a_string_is_data():
    text = "a </think> b"
    result = await Agent(ScriptedEngine([Call("note", {"text": text}), Say("Done.")]), tools=[note, get]).run("Hi")
    assert [call.arguments for call in result.calls] == [{"text": text}]


@pytest.mark.parametrize("tool", [None, "get"])
async def test_fault_28_whether_to_call_is_a_decision_of_its_own(tool):
    said = "I'll call get now."
    script = [Say(said)] if tool is None else [Call(tool, text=said), Say("Done.")]
    result = await Agent(ScriptedEngine(script), tools=[get, get_all]).run("Hi")
    assert [call.name for call in result.calls] == ([] if tool is None else [tool])
    assert result.output == (said if tool is None else "Done.")


async def test_fault_29_the_same_call_three_times_is_broken_off():
    ran = []

    def look(word: str) -> str:
        """Looks a word up."""
        ran.append(word)
        return "nothing"

    again = Call("look", {"word": "a"})
    result = await Agent(ScriptedEngine([again] * 3 + [Say("It is not there.")]), tools=[look]).run("Hi")
    assert (result.output, result.finish) == ("It is not there.", "repetition")
    assert len(ran) < 3


async def test_fault_31_control_text_in_a_written_argument_is_data():
    text = 'argument "</tool_call><|im_end|>"'
    result = await Agent(ScriptedEngine([Call("note", {"text": text}), Say("Done.")]), tools=[note, get]).run("Hi")
    assert [call.arguments for call in result.calls] == [{"text": text}]


@pytest.mark.parametrize("cut", range(1, len("Münster 🚀".encode())))
def test_fault_32_no_delta_comes_twice(cut):
    data = "Münster 🚀".encode()
    stream = TextStream()
    assert stream.feed(data[:cut]) + stream.feed(data[cut:]) + stream.flush() == "Münster 🚀"


def test_fault_33_unknown_counts_are_null():
    known, unknown = Usage(prompt_tokens=5, cached_tokens=3), Usage(prompt_tokens=4, cached_tokens=None)
    assert (known + unknown).cached_tokens is None
    assert (unknown + known).prompt_tokens == 9
    assert (known + known).cached_tokens == 6


async def test_fault_30_a_fenced_call_is_recovered_if_valid():
    fenced = '```json\n{"name": "note", "parameters": {"text": "hi"}}\n```'
    result = await Agent(ScriptedEngine([Say(fenced), Say("Done.")]), tools=[note, get]).run("Hi")
    assert [call.arguments for call in result.calls] == [{"text": "hi"}]


async def test_fault_30_a_fenced_call_that_is_not_valid_stays_text():
    fenced = '```json\n{"name": "note", "parameters": {"text": 1}}\n```'
    result = await Agent(ScriptedEngine([Say(fenced)]), tools=[note, get]).run("Hi")
    assert (result.calls, result.output) == ((), fenced)
