"""A turn in every format: arguments are chosen and written as the template writes them in the next turn."""

from __future__ import annotations

import json
from typing import Literal

import pytest

from agentform.decoding.limits import Limits
from agentform.decoding.session import Session
from agentform.messages import Message, ToolResult, Usage
from agentform.runtime.engine import Chunk
from agentform.runtime.tokenizer.hf_tokenizer import HFTokenizer
from agentform.schema.target import load
from agentform.tools.tool import tool
from agentform.turn.turn import TurnRunner
from agentform.turn.types import TurnOptions
from tests.support.call_templates import CALL_TEMPLATES
from tests.support.recording_engine import RecordingEngine
from tests.support.tiny_tokenizer import write_tiny_tokenizer

pytestmark = pytest.mark.anyio


@tool
def weather(
    city: str,
    unit: Literal["°C", 'F"', "a b"],
    days: int,
    at_night: bool,
    places: list[Literal["in", "out"]],
    note: str | None = None,
    wind: Literal[1, 2.5, None] = None,
) -> str:
    """Says how it is."""
    return "sunny"


@tool
def weather_of(place: Literal["in", "out"]) -> str:
    """Says how it is there."""
    return "sunny"


class Talker(RecordingEngine):
    """Begins a call as soon as it may, writes the same values, and chooses by what stands before a choice."""

    async def generate(self, request):
        self.generated.append(request)
        if request.grammar is not None:
            schema = json.loads(request.grammar.text)
            value = {"string": '"hello"', "integer": "12", "array": '["in"]'}.get(schema.get("type"), '"x"')
            text = request.grammar.lead + value + request.grammar.follow
            yield Chunk(text=text, token_ids=self.tokenizer.encode(text))
            yield Chunk(finish="grammar", usage=Usage())
            return
        is_value = any(stop in MARKS for stop in request.stop)
        if not is_value:
            told = self.tokenizer.decode(request.prompt_ids)
            text = "12" if told.rfind("days") > max(told.rfind("city"), told.rfind("note")) else "hello the world"
            yield Chunk(text=text, token_ids=self.tokenizer.encode(text))
        yield Chunk(finish="stop", stop=request.stop[0], usage=Usage())


MARKS = {"<tool_call>", "[TOOL_CALLS]", "<TOOLCALL>", "<|START_ACTION|>", '{"name": "', "<｜calls▁begin｜>"}
MARKS |= {"<|section_begin|>", "<|prefix|>", "Action:", "<call>", "<calls>", "<|call_start|>", "<|tool_call>"}
MARKS |= {"to=functions.", ">>>", '<invoke name="', '<function name="', "~<calls>", "<|open|>calls<|sep|>", "<|open|>"}


def choices(seed):
    def choose(prompt, branch):
        best = (len(prompt) * 7 + len(branch.candidates) + seed) % len(branch.candidates)
        return tuple(-0.1 if i == best else -3.0 - i for i, _ in enumerate(branch.candidates))

    return choose


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("name", CALL_TEMPLATES)
async def test_a_turns_call_is_what_the_template_renders_in_the_next_turn(tmp_path, name, seed):
    tokenizer = HFTokenizer(write_tiny_tokenizer(tmp_path, template=CALL_TEMPLATES[name]))
    engine = Talker(tokenizer, score_branch=choices(seed))
    runner = TurnRunner(engine=engine, targets={"weather": weather.target, "weather_of": weather_of.target})
    session = Session(engine, limits=Limits())

    async def ignore(event):
        del event

    asked = [Message(role="user", content="How is it?")]
    options = TurnOptions(tool="weather", may_answer=False)
    result = await runner.turn(session, asked, options=options, emit=ignore)
    [call] = result.message.calls
    assert call.arguments["city"] in ("hello", "hello the world")
    assert {item.pointer for item in call.evidence} >= {"/city", "/unit", "/days", "/at_night"}
    answered = Message(role="tool", content="ok", result=ToolResult(call_id=call.id, name=call.name, content="ok"))
    following = tokenizer.decode(runner.prompt([*asked, result.message, answered]))
    assert following.startswith(tokenizer.decode(result.token_ids))


@pytest.mark.parametrize("name", CALL_TEMPLATES)
async def test_a_name_is_told_from_another_that_begins_like_it(tmp_path, name):
    tokenizer = HFTokenizer(write_tiny_tokenizer(tmp_path, template=CALL_TEMPLATES[name]))
    engine = Talker(tokenizer, score_branch=choices(0))
    runner = TurnRunner(engine=engine, targets={"weather": weather.target, "weather_of": weather_of.target})

    async def ignore(event):
        del event

    asked = [Message(role="user", content="How is it?")]
    result = await runner.turn(
        Session(engine, limits=Limits()),
        asked,
        options=TurnOptions(barred=frozenset({"weather"}), may_answer=False),
        emit=ignore,
    )
    assert result.message.calls[0].name == "weather_of"
    result = await runner.turn(Session(engine, limits=Limits()), asked, options=TurnOptions(), emit=ignore)
    assert result.decision is not None


class Mumbler(Talker):
    """Writes words where a number is asked for, unless a grammar forbids it."""

    async def generate(self, request):
        if request.grammar is None and request.stop[0] not in MARKS:
            self.generated.append(request)
            yield Chunk(text="hello", token_ids=self.tokenizer.encode("hello"))
            yield Chunk(finish="stop", stop=request.stop[0], usage=Usage())
            return
        async for chunk in super().generate(request):
            yield chunk


@tool
def wait(days: int) -> str:
    """Waits."""
    return "done"


@pytest.mark.parametrize("name", ["an element a parameter", "keywords", "bare keys and quoted strings"])
async def test_a_number_that_is_none_is_written_again_under_a_grammar(tmp_path, name):
    tokenizer = HFTokenizer(write_tiny_tokenizer(tmp_path, template=CALL_TEMPLATES[name]))
    engine = Mumbler(tokenizer, score_branch=choices(0))

    async def ignore(event):
        del event

    runner = TurnRunner(engine=engine, targets={"wait": wait.target})
    options = TurnOptions(may_answer=False)
    asked = [Message(role="user", content="Wait.")]
    result = await runner.turn(Session(engine, limits=Limits()), asked, options=options, emit=ignore)
    assert result.message.calls[0].arguments == {"days": 12}


class Silent(RecordingEngine):
    """Ends its turn as soon as it may."""

    async def generate(self, request):
        self.generated.append(request)
        yield Chunk(finish="eos", usage=Usage())


def last(prompt, branch):
    return tuple(-0.1 if at == len(branch.candidates) - 1 else -5.0 for at, _ in enumerate(branch.candidates))


@pytest.mark.parametrize("name", CALL_TEMPLATES)
async def test_a_form_that_is_the_answer_stands_where_the_template_writes_text(tmp_path, name):
    tokenizer = HFTokenizer(write_tiny_tokenizer(tmp_path, template=CALL_TEMPLATES[name]))
    engine = Silent(tokenizer, score_branch=last)
    runner = TurnRunner(engine=engine, targets={"weather_of": weather_of.target, "wait": wait.target})

    async def ignore(event):
        del event

    form = load({"type": "object", "properties": {"place": {"enum": ["in", "out"]}}, "required": ["place"]})
    asked = [Message(role="user", content="How is it?")]
    options = TurnOptions(form=form)
    result = await runner.turn(Session(engine, limits=Limits()), asked, options=options, emit=ignore)
    assert (result.message.calls, result.message.content) == ((), '{"place": "out"}')
    following = tokenizer.decode(runner.prompt([*asked, result.message, Message(role="user", content="And now?")]))
    assert following.startswith(tokenizer.decode(result.token_ids))
