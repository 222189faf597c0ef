"""Call or answer, and which tool, keep to the limits on legal mass and probability as other choices do."""

from __future__ import annotations

import math

import pytest

from agentform.decoding.limits import Limits
from agentform.decoding.session import Session
from agentform.decoding.token_context import TokenContext
from agentform.errors import Abstained
from agentform.messages import Message, Usage
from agentform.runtime.engine import Chunk
from agentform.runtime.tokenizer.hf_tokenizer import HFTokenizer
from agentform.tools.tool import tool
from agentform.turn.next_step import call_mass
from agentform.turn.turn import TurnRunner
from tests.support.call_templates import CALL_TEMPLATES
from tests.support.recording_engine import RecordingEngine
from tests.support.tiny_tokenizer import write_tiny_tokenizer

pytestmark = pytest.mark.anyio


@tool
def ping() -> str:
    """Ping."""
    return "pong"


@tool
def wait() -> str:
    """Wait."""
    return "waited"


class Quiet(RecordingEngine):
    """Says nothing: its turn is over, or its text is at its limit."""

    finish = "eos"

    async def generate(self, request):
        self.generated.append(request)
        yield Chunk(finish=self.finish, usage=Usage(completion_tokens=1))


def engine_of(folder, *, call, end, name, finish="eos"):
    """Gives `call` to a call's mark, `end` to the end of the turn, `name` to the first of the names."""
    tokenizer = HFTokenizer(write_tiny_tokenizer(folder, template=CALL_TEMPLATES["a JSON object between marks"]))
    ends = tokenizer.eos_ids

    def score(prompt, branch):
        if ends & set(branch.candidates):
            return tuple(math.log(end / len(ends) if token in ends else call) for token in branch.candidates)
        if len(branch.candidates) > 1:
            return (math.log(name), *(math.log(0.01) for _ in branch.candidates[1:]))
        return (0.0,) * len(branch.candidates)

    engine = Quiet(tokenizer, score_branch=score)
    engine.finish = finish
    return engine


async def decided(engine, limits=None, tools=(ping, wait)):
    async def ignore(event):
        del event

    runner = TurnRunner(engine=engine, targets={each.name: each.target for each in tools})
    session = Session(engine, limits=limits or Limits())
    return (await runner.turn(session, [Message(role="user", content="x")], emit=ignore)).decision


async def test_an_answers_mass_is_that_of_the_end_and_of_a_call(tmp_path):
    engine = engine_of(tmp_path, call=0.1, end=0.3, name=0.9)
    decision = await decided(engine)
    assert (decision.value, decision.how) == (None, "scored")
    assert decision.probability == pytest.approx(0.75)
    assert decision.legal_mass == pytest.approx(0.4)
    for limits in (Limits(min_legal_mass=0.5), Limits(min_probability=0.8)):
        with pytest.raises(Abstained, match="the next step") as caught:
            await decided(engine, limits)
        assert caught.value.evidence[0].legal_mass == pytest.approx(0.4)
    assert await decided(engine, Limits(min_legal_mass=0.4, min_probability=0.7)) == decision


async def test_where_the_text_goes_on_anything_but_a_call_is_an_answer(tmp_path):
    engine = engine_of(tmp_path, call=0.2, end=0.01, name=0.9, finish="length")
    decision = await decided(engine, Limits(min_legal_mass=0.99))
    assert (decision.value, decision.probability) == (None, pytest.approx(0.8))


async def test_a_calls_probability_and_mass_are_those_of_call_and_name_together(tmp_path):
    engine = engine_of(tmp_path, call=0.6, end=0.2, name=0.5)
    decision = await decided(engine)
    assert decision.value == "ping"
    total = 0.2 + 0.6 * (0.5 + 0.01)
    assert decision.legal_mass == pytest.approx(total)
    assert decision.probability == pytest.approx(0.6 * 0.5 / total)
    assert {other.value: pytest.approx(other.probability) for other in decision.alternatives} == {
        "wait": 0.6 * 0.01 / total,
        None: 0.2 / total,
    }
    for limits in (Limits(min_legal_mass=0.6), Limits(min_probability=0.7)):
        with pytest.raises(Abstained):
            await decided(engine, limits)


async def test_the_only_tool_is_called_as_surely_as_a_call_was_chosen(tmp_path):
    engine = engine_of(tmp_path, call=0.6, end=0.2, name=0.5)
    decision = await decided(engine, tools=(ping,))
    assert (decision.value, decision.how) == ("ping", "scored")
    assert (decision.probability, decision.legal_mass) == (pytest.approx(0.75), pytest.approx(0.8))
    with pytest.raises(Abstained):
        await decided(engine, Limits(min_probability=0.8), tools=(ping,))


async def test_where_text_and_mark_would_merge_the_end_is_weighed_after_the_whole_text(tmp_path):
    engine = engine_of(tmp_path, call=0.1, end=0.3, name=0.9)
    tokenizer, other = engine.tokenizer, 7

    class Merging:
        """A tokenizer in which the last letter of a text that nothing follows is another token."""

        def encode(self, text, **options):
            return (*tokenizer.encode(text[:-1]), other) if text == "hello" else tokenizer.encode(text, **options)

        def __getattr__(self, name):
            return getattr(tokenizer, name)

    async def score(prompt_ids, branches):
        likely = {other: 0.5, **dict.fromkeys(tokenizer.eos_ids, 0.45)}
        return [tuple(math.log(likely.get(token, 0.01)) for token in branch.candidates) for branch in branches]

    session = Session(engine, limits=Limits())
    session.tokenizer, session.score = Merging(), score
    format = TurnRunner(engine=engine, targets={}).format
    mass = await call_mass(session, format, TokenContext(ids=(1,)).with_text("hello"), "\n<tool_call>")
    assert mass.end == pytest.approx(0.9, rel=0.02)
    assert mass.answer(ended=True) > mass.call
