"""A model's thought: inside its own marks, closed at its limit, never decided inside, apart from the answer."""

from __future__ import annotations

from typing import Literal

import pytest
from pydantic import BaseModel, field_validator

from agentform.decoding.limits import Limits
from agentform.decoding.session import Session
from agentform.decoding.thinking import Thinking
from agentform.events import ThoughtDelta
from agentform.forms.fill import fill
from agentform.messages import Message, Usage
from agentform.runtime.engine import Chunk
from agentform.runtime.tokenizer.hf_tokenizer import HFTokenizer
from agentform.schema.target import load
from agentform.tools.tool import tool
from agentform.turn.reasoning import Reasoning
from agentform.turn.turn import TurnRunner
from agentform.turn.types import TurnOptions
from tests.support.call_templates import THINKING_TEMPLATES
from tests.support.recording_engine import RecordingEngine
from tests.support.tiny_tokenizer import CHATML, write_tiny_tokenizer

pytestmark = pytest.mark.anyio
OPENED, SWITCH = (
    THINKING_TEMPLATES["a thought that the prompt opens"],
    THINKING_TEMPLATES["a switch that closes the thought"],
)
ASKED = [Message(role="user", content="How is it?")]


@tool
def weather(place: Literal["in", "out"]) -> str:
    """Says how it is."""
    return "sunny"


class Thinker(RecordingEngine):
    """Thinks, as long as it may, then says something or begins a call."""

    thought = "hello the world"
    calls = True
    endless = False

    async def generate(self, request):
        self.generated.append(request)
        if "</think>" in request.stop:
            yield Chunk(text=self.thought, token_ids=self.tokenizer.encode(self.thought))
            last = {"finish": "length"} if self.endless else {"finish": "stop", "stop": "</think>"}
            yield Chunk(usage=Usage(completion_tokens=5), **last)
        elif self.calls and request.stop:
            yield Chunk(finish="stop", stop=request.stop[0], usage=Usage())
        else:
            yield Chunk(text="\n\nFine.", token_ids=self.tokenizer.encode("\n\nFine."))
            yield Chunk(finish="eos", usage=Usage())


def engine_of(folder, template):
    return Thinker(HFTokenizer(write_tiny_tokenizer(folder, template=template)), score_branch=later)


def later(prompt, branch):
    """The end of a turn, and else the first option."""
    return tuple(-0.1 if at == len(branch.candidates) - 1 else -4.0 for at, _ in enumerate(branch.candidates))


async def turn(engine, *, reasoning=None, targets=None, options=None):
    told = []

    async def emit(event):
        told.append(event)

    runner = TurnRunner(engine=engine, targets=targets or {}, reasoning=reasoning or Reasoning())
    session = Session(engine, limits=Limits())
    return await runner.turn(session, ASKED, options=options, emit=emit), told, session


async def test_a_thought_ends_by_itself_and_is_no_part_of_the_answer(tmp_path):
    engine = engine_of(tmp_path, OPENED)
    engine.calls = False
    result, told, session = await turn(engine)
    assert (result.message.content, result.message.reasoning) == ("Fine.", "hello the world")
    assert [event.text for event in told if isinstance(event, ThoughtDelta)] == ["hello the world"]
    assert session.usage.reasoning_tokens == 5
    text = engine.tokenizer.decode(result.token_ids)
    assert text.endswith("<think>\nhello the world\n</think>\n\nFine.")


async def test_at_its_limit_a_thought_is_closed_with_a_sentence(tmp_path):
    engine = engine_of(tmp_path, OPENED)
    engine.endless, engine.calls = True, False
    result, _, _ = await turn(engine, reasoning=Reasoning(max_tokens=7))
    assert engine.generated[0].max_tokens == 7
    assert "That is enough thought" in engine.tokenizer.decode(result.token_ids)
    assert engine.tokenizer.decode(engine.generated[1].prompt_ids).endswith("\n</think>")


async def test_a_call_is_decided_after_the_thought_and_written_as_the_template_writes_it(tmp_path):
    engine = engine_of(tmp_path, OPENED)
    result, _, _ = await turn(engine, targets={"weather": weather.target})
    [call] = result.message.calls
    assert call.name == "weather"
    for request in engine.scored:
        assert "</think>" in engine.tokenizer.decode(request.prompt_ids).rsplit("assistant", 1)[-1]
    runner = TurnRunner(engine=engine, targets={"weather": weather.target})
    following = engine.tokenizer.decode(runner.prompt([*ASKED, result.message]))
    assert following.startswith(engine.tokenizer.decode(result.token_ids))


@pytest.mark.parametrize("template", [OPENED, SWITCH])
async def test_without_effort_the_template_is_told_so_and_nothing_is_thought(tmp_path, template):
    engine = engine_of(tmp_path, template)
    engine.calls = False
    result, _, _ = await turn(engine, reasoning=Reasoning(effort="none"))
    assert result.message.reasoning == ""
    assert engine.tokenizer.decode(engine.generated[0].prompt_ids).endswith("<think>\n\n</think>\n\n")


async def test_arguments_of_the_template_go_before_what_the_effort_stands_for(tmp_path):
    engine = engine_of(tmp_path, OPENED)
    engine.calls = False
    options = TurnOptions(reasoning=Reasoning(effort="high", template_arguments={"enable_thinking": False}))
    result, _, _ = await turn(engine, options=options)
    assert result.message.reasoning == ""


async def test_a_model_that_opens_a_thought_itself_is_asked_whether_it_does(tmp_path):
    engine = engine_of(tmp_path, SWITCH)
    engine.calls = False
    result, _, _ = await turn(engine)
    assert result.message.reasoning == "hello the world"
    assert "<think>\nhello the world\n</think>" in engine.tokenizer.decode(result.token_ids)
    engine._score_branch = lambda prompt, branch: (-9.0,) * len(branch.candidates)
    result, _, _ = await turn(engine)
    assert result.message.reasoning == ""
    result, _, _ = await turn(engine, reasoning=Reasoning(effort="low"))
    assert result.message.reasoning == "hello the world"


async def test_a_form_is_never_filled_inside_a_thought(tmp_path):
    engine = engine_of(tmp_path, OPENED)
    form = {"type": "object", "properties": {"place": {"enum": ["in", "out"]}}, "required": ["place"]}
    filled = await fill(engine, "How is it?", form)
    assert filled.reasoning == ""
    told = [engine.tokenizer.decode(request.prompt_ids) for request in engine.scored]
    assert all(text.count("<think>") == text.count("</think>") for text in told)
    filled = await fill(engine, "How is it?", form, think=True)
    assert filled.reasoning == "hello the world"
    told = [engine.tokenizer.decode(request.prompt_ids) for request in engine.scored if not request.aside]
    assert "hello the world\n</think>" in told[-1]
    assert (await fill(engine, "How?", form, think=Thinking(max_tokens=0))).reasoning == ""


class Word(BaseModel):
    """A word."""

    said: str

    @field_validator("said")
    @classmethod
    def only_hello(cls, said: str) -> str:
        if said != "hello":
            raise ValueError("say hello")
        return said


class Corrected(Thinker):
    """Writes another word after it was told that the first one is not valid."""

    async def generate(self, request):
        told = self.tokenizer.decode(request.prompt_ids)
        written = "hello" if "say hello" in told else "world"
        if request.grammar is not None:
            self.generated.append(request)
            yield Chunk(text=f'{request.grammar.lead}"{written}"{request.grammar.follow}')
            yield Chunk(finish="grammar", usage=Usage())
        elif "</parameter>" in "".join(request.stop):
            self.generated.append(request)
            yield Chunk(text=written)
            yield Chunk(finish="stop", stop=request.stop[0], usage=Usage())
        else:
            async for chunk in super().generate(request):
                yield chunk


REFUSED = {
    "a call": ({"say": load(Word, name="say")}, {}),
    "a form": ({}, {"form": load(Word)}),
}


def corrected(folder, template):
    return Corrected(HFTokenizer(write_tiny_tokenizer(folder, template=template)), score_branch=later)


@pytest.mark.parametrize("what", REFUSED)
async def test_what_was_refused_is_shown_under_the_turns_own_template_arguments(tmp_path, what):
    targets, wanted = REFUSED[what]
    engine = corrected(tmp_path, "{{ mood or 'dull' }}" + OPENED)
    reasoning = Reasoning(effort="high", template_arguments={"mood": "bright"})
    result, _, _ = await turn(engine, targets=targets, options=TurnOptions(reasoning=reasoning, **wanted))
    assert result.message.calls or result.filled
    own = [engine.tokenizer.decode(r.prompt_ids) for r in engine.generated]
    assert any("say hello" in text for text in own)
    assert all("bright" in text and "dull" not in text for text in own)


@pytest.mark.parametrize("template", [OPENED, SWITCH])
@pytest.mark.parametrize("what", REFUSED)
async def test_what_was_refused_is_never_filled_again_inside_a_thought(tmp_path, what, template):
    targets, wanted = REFUSED[what]
    engine = corrected(tmp_path, template)
    await turn(engine, targets=targets, options=TurnOptions(**wanted))
    written = [engine.tokenizer.decode(r.prompt_ids) for r in engine.generated]
    again = [text for text in written if "say hello" in text]
    assert again
    assert all(text.count("<think>") == text.count("</think>") for text in again)


@pytest.mark.parametrize("what", ["a form", "a step"])
async def test_label_priors_are_measured_outside_of_a_thought(tmp_path, what):
    no_calls = CHATML.replace("{% endif %}", "{{ '<think>\\n' }}{% endif %}")
    engine = engine_of(tmp_path, OPENED if what == "a form" else no_calls)
    form = load({"type": "object", "properties": {"place": {"enum": ["in", "out"]}}, "required": ["place"]})
    targets = {} if what == "a form" else {"weather": weather.target}
    engine.calls = what == "a form"
    await turn(engine, targets=targets, options=TurnOptions(form=form))
    told = [engine.tokenizer.decode(request.prompt_ids) for request in engine.scored if request.aside]
    assert told
    assert all(text.count("<think>") == text.count("</think>") == 1 for text in told)
