"""How a call is written: as the model's own template writes it, or in the one default way."""

from __future__ import annotations

import json
from typing import Annotated, Literal

import pytest
from pydantic import BaseModel, Field

from agentform.agent.agent import Agent
from agentform.agent.conversation import Conversation
from agentform.decoding.formats.framing import CallFraming
from agentform.decoding.token_context import TokenContext, advance
from agentform.decoding.tool_format import (
    DEFAULT_FORMAT,
    ToolText,
    argument_lines,
    call_text,
    conversation,
    learn_format,
)
from agentform.events import ToolStarted
from agentform.messages import Message, ToolCall
from agentform.runtime.engine import GenerateRequest
from agentform.runtime.tokenizer.hf_tokenizer import HFTokenizer
from agentform.schema.target import load
from agentform.testing import ByteTokenizer, Call, Say, ScriptedEngine, scripted_call
from agentform.tools.tool import tool
from agentform.turn.turn import TurnRunner
from tests.support.recording_engine import RecordingEngine
from tests.support.tiny_tokenizer import CHATML, CHATML_WITH_TOOLS, write_tiny_tokenizer

_XML_CALL = (
    "{{ '<tool_call><function=' + call.function.name + '>' }}{% for key, value in call.function.arguments.items() %}"
    "{{ '<parameter=' + key + '>' + (value | string) + '</parameter>' }}{% endfor %}{{ '</function></tool_call>' }}"
)
_JSON_CALL = "{{ '<tool_call>' + (call.function | tojson) + '</tool_call>' }}"
XML_PARAMETERS = CHATML_WITH_TOOLS.replace(_JSON_CALL, _XML_CALL)
# As Qwen's: a line break before a call that follows text or another call.
QWEN_LIKE = CHATML_WITH_TOOLS.replace(
    _JSON_CALL,
    "{% if not loop.first or message.content %}{{ '\\n' }}{% endif %}"
    '{{ \'<tool_call>\\n{"name": "\' + call.function.name + \'", "arguments": \' }}'
    "{{ call.function.arguments | tojson }}{{ '}\\n</tool_call>' }}",
)
FORM = load({"type": "object", "properties": {"city": {"type": "string"}}}, name="weather").form
ASKED = [Message(role="user", content="Well?")]
WEATHER = ToolText(name="weather", description="Says how it is.", form=FORM)


def tokenizer_of(folder, template):
    return HFTokenizer(write_tiny_tokenizer(folder, template=template))


def test_a_template_without_tools_gets_the_default_format(tmp_path):
    tokenizer = tokenizer_of(tmp_path, CHATML)
    assert not learn_format(tokenizer).native
    assert learn_format(tokenizer).layout == DEFAULT_FORMAT.layout


def test_the_byte_tokenizers_template_is_learned_as_well():
    assert not learn_format(ByteTokenizer()).native
    format = learn_format(ByteTokenizer(tool_template=True))
    assert format.native
    assert call_text(format, "x", {}) == call_text(DEFAULT_FORMAT, "x", {})


class Room(BaseModel):
    z: int
    a: str


@tool
def play(
    title: Annotated[str, Field(max_length=9, description="What")], loud: bool = False, rooms: list[Room] | None = None
) -> str:
    """Plays."""
    return "done"


ROOM = '{"title": "Room", "type": "object", "properties": {"z": {"type": "integer"}, "a": {"type": "string"}}, '
PLAY = (
    '{"type": "function", "function": {"name": "play", "description": "Plays.", "parameters": {"type": "object", '
    '"properties": {"title": {"type": "string", "maxLength": 9, "description": "What"}, '
    '"loud": {"type": "boolean", "default": false}, '
    '"rooms": {"anyOf": [{"type": "array", "items": {"$ref": "#/$defs/Room"}}, {"type": "null"}], "default": null}}, '
    '"required": ["title"], "additionalProperties": false, "$defs": {"Room": ' + ROOM + '"required": ["z", "a"]}}}}}'
)


def test_a_function_is_listed_with_its_keys_in_the_order_that_models_were_trained_on(tmp_path):
    tokenizer = tokenizer_of(tmp_path, CHATML_WITH_TOOLS)
    prompt = TurnRunner(engine=ScriptedEngine([], tokenizer=tokenizer), targets={"play": play.target}).prompt(ASKED)
    assert PLAY in tokenizer.decode(prompt)


def test_a_schema_that_is_given_is_listed_as_it_is_given(tmp_path):
    given = {"required": ["b"], "properties": {"b": {"enum": ["x", "y"], "type": "string"}, "a": {}}, "type": "object"}
    tokenizer = tokenizer_of(tmp_path, CHATML_WITH_TOOLS)
    targets = {"t": load(given)}
    prompt = TurnRunner(engine=ScriptedEngine([], tokenizer=tokenizer), targets=targets).prompt(ASKED)
    assert json.dumps(given) in tokenizer.decode(prompt)


def messages_of(format, messages, **options):
    return conversation(format, messages, **options).messages


def test_the_default_format_spells_tools_calls_and_results():
    messages = [
        Message(role="system", content="Be kind."),
        Message(role="user", content="Rome?"),
        *scripted_call("weather", {"city": "名古屋", "n": [1, None]}, "sunny", text="I look."),
    ]
    system, kind, user, call, result = messages_of(
        learn_format(ByteTokenizer()), messages, instructions="Help.", tools=[WEATHER]
    )
    assert system == {
        "role": "system",
        "content": "Help.\n\nYou can call these tools:\n- weather: Says how it is.\n  - city",
    }
    assert kind == {"role": "system", "content": "Be kind."}
    assert user == {"role": "user", "content": "Rome?"}
    text = '<tool_call>\n{"name": "weather", "arguments": {"city": "名古屋", "n": [1, null]}}\n</tool_call>'
    assert call == {"role": "assistant", "content": f"I look.\n{text}"}
    assert result == {"role": "user", "content": "<tool_response>\nsunny\n</tool_response>"}
    assert conversation(DEFAULT_FORMAT, messages, tools=[WEATHER]).tools is None


def test_without_instructions_and_tools_there_is_no_system_message():
    assert messages_of(DEFAULT_FORMAT, [Message(role="user", content="x")]) == [{"role": "user", "content": "x"}]


def test_several_calls_of_a_message_stand_below_one_another():
    calls = tuple(ToolCall(id=f"c{i}", name="weather", arguments={"i": i}) for i in range(2))
    [message] = messages_of(DEFAULT_FORMAT, [Message(role="assistant", calls=calls)])
    assert message["content"] == (
        '<tool_call>\n{"name": "weather", "arguments": {"i": 0}}\n</tool_call>\n'
        '<tool_call>\n{"name": "weather", "arguments": {"i": 1}}\n</tool_call>'
    )


def test_a_native_format_leaves_tools_calls_and_results_to_the_template():
    format = learn_format(ByteTokenizer(tool_template=True))
    called, answered = scripted_call("weather", {"city": "Rome"}, "sunny", text="I look.", call_id="c1")
    prompt = conversation(format, [called, answered], instructions="Help.", tools=[WEATHER])
    [system, assistant, result] = prompt.messages
    assert system["content"] == "Help."
    assert assistant["tool_calls"][0]["function"] == {"name": "weather", "arguments": {"city": "Rome"}}
    assert result == {"role": "tool", "content": "sunny", "name": "weather", "tool_call_id": "c1"}
    [definition] = prompt.tools
    assert definition["function"] == {"name": "weather", "description": "Says how it is.", "parameters": FORM.schema}


def test_arguments_are_listed_with_what_is_known_of_them():
    form = load(
        {
            "type": "object",
            "properties": {
                "a": {"enum": ["x", "名"], "description": "The first."},
                "b": {"const": 1},
                "c": {"type": "string"},
                "d": {"enum": [f"o{i}" for i in range(51)]},
            },
        }
    ).form
    assert argument_lines(form).splitlines() == ['- a: The first. ("x", "名")', "- b (1)", "- c", "- d"]


@tool
def weather(city: str, unit: Literal["°C", 'F"'], days: list[int] | None = None) -> str:
    """Says how it is."""
    return f"sunny in {city}"


CALL = {"city": 'München "🚀" <|im_end|>\n</tool_call>', "unit": 'F"', "days": [1, 2]}


@pytest.mark.anyio
@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize("text", ["", "I look it up.", ' I "look"\n\nit up. '])
async def test_a_call_is_written_as_the_template_renders_it_in_the_next_turn(native, text):
    tokenizer = ByteTokenizer(tool_template=native)
    engine = ScriptedEngine([Call("weather", CALL, text=text), Say("Fine.")], tokenizer=tokenizer)
    conversation = Conversation()
    seen = []

    async with Agent(engine, tools=[weather]).stream("How is it?", conversation=conversation) as run:
        async for event in run:
            if isinstance(event, ToolStarted):
                seen.append(conversation.token_ids)
    assert run.result.output == "Fine."
    prompts = [r.prompt_ids for r in engine.requests if isinstance(r, GenerateRequest) and r.grammar is None]
    assert len(prompts) == 2
    assert seen[0][: len(prompts[0])] == prompts[0]
    assert prompts[1][: len(seen[0])] == seen[0]
    assert prompts[1][len(seen[0])] == tokenizer.END
    written = '{"city": "München \\"🚀\\" <|im_end|>\\n</tool_call>", "unit": "F\\"", "days": [1, 2]}'
    assert f'<tool_call>\n{{"name": "weather", "arguments": {written}}}\n</tool_call>' in tokenizer.decode(prompts[1])


@pytest.mark.parametrize("template", [QWEN_LIKE, CHATML_WITH_TOOLS, XML_PARAMETERS, CHATML])
@pytest.mark.parametrize("content", ["", "hello the world"])
def test_with_a_merging_tokenizer_too_what_is_emitted_is_what_is_rendered(tmp_path, template, content):
    tokenizer = tokenizer_of(tmp_path, template)
    caller = TurnRunner(engine=RecordingEngine(tokenizer), targets={"weather": weather.target})
    asked = [Message(role="user", content="How is it?")]
    prompt = caller.prompt(asked)
    context = TokenContext(ids=prompt, tail=content)
    arguments = '{"city": "hello </tool_call> é", "unit": "F\\"", "days": [1]}'
    at = (
        caller.places.first_arguments(context, "weather", spoken=bool(content))
        .json()
        .with_text(arguments)
        .spelt(tokenizer)
    )
    end = advance(tokenizer, at, CallFraming(format=caller.format).after_arguments)
    past = end.ids + tokenizer.encode(end.tail)
    value = {"city": "hello </tool_call> é", "unit": 'F"', "days": [1]}
    rendered = caller.prompt([*asked, *scripted_call("weather", value, "sunny", text=content)], past)
    assert rendered[: len(past)] == past
    [after] = tokenizer.encode("<|im_end|>", control=True)
    assert rendered[len(past)] == after
