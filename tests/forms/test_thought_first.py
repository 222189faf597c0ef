"""`fill(think=...)`: the model thinks in its own marks first, and the form comes after the closed thought."""

from __future__ import annotations

from typing import Literal

import pytest
from pydantic import BaseModel

from agentform import Limits, fill, fill_sync
from agentform.decoding.thinking import Thinking
from tests.support.thinker import OPENED, SWITCH, thinker
from tests.support.tiny_tokenizer import CHATML

pytestmark = pytest.mark.anyio
THOUGHT = "hello the world"


class Place(BaseModel):
    """Where it is."""

    place: Literal["in", "out"]
    days: int


def told(engine):
    """Prompts of what was asked of the form itself, not of content-free inputs."""
    scored = [engine.tokenizer.decode(request.prompt_ids) for request in engine.scored if not request.aside]
    written = [engine.tokenizer.decode(r.prompt_ids) for r in engine.generated if "</think>" not in r.stop]
    return [prompt for prompt in scored + written if "{" in prompt.rsplit("assistant", 1)[-1]]


@pytest.mark.parametrize("template", [OPENED, SWITCH])
async def test_every_leaf_is_asked_after_the_closed_thought(tmp_path, template):
    engine = thinker(tmp_path, template, value="12")
    filled = await fill(engine, "How is it?", Place, think=True)
    assert filled.value == Place(place="out", days=12)
    assert filled.reasoning == THOUGHT
    assert THOUGHT not in filled.json_text
    assert filled.usage.reasoning_tokens == 5
    assert told(engine)
    assert all(f"<think>\n{THOUGHT}\n</think>" in prompt for prompt in told(engine))


@pytest.mark.parametrize("template", [OPENED, SWITCH])
async def test_without_it_nothing_is_thought_and_no_leaf_is_asked_in_an_open_thought(tmp_path, template):
    engine = thinker(tmp_path, template, value="12")
    filled = await fill(engine, "How is it?", Place)
    assert (filled.reasoning, filled.usage.reasoning_tokens) == ("", 0)
    assert all(prompt.count("<think>") == prompt.count("</think>") for prompt in told(engine))


async def test_a_thought_is_closed_at_its_limit_and_at_that_of_all_tokens(tmp_path):
    engine = thinker(tmp_path, value="12")
    engine.endless = True
    filled = await fill(engine, "How is it?", Place, think=Thinking(max_tokens=7))
    assert engine.generated[0].max_tokens == 7
    assert filled.reasoning.startswith(THOUGHT)
    assert all(filled.reasoning + "\n</think>" in prompt for prompt in told(engine))
    await fill(engine, "How is it?", Place, think=True, limits=Limits(completion_tokens=9))
    assert [request.max_tokens for request in engine.generated if "</think>" in request.stop][-1] == 9


@pytest.mark.parametrize("think", [Thinking(effort="none"), Thinking(max_tokens=0)])
async def test_a_thought_that_may_not_be_is_not(tmp_path, think):
    assert (await fill(thinker(tmp_path, value="12"), "How is it?", Place, think=think)).reasoning == ""


async def test_a_model_that_knows_no_thoughts_fills_as_it_always_does(tmp_path):
    engine = thinker(tmp_path, CHATML, value="12")
    thought, plain = await fill(engine, "How is it?", Place, think=True), await fill(engine, "How is it?", Place)
    assert (thought.value, thought.reasoning) == (plain.value, "")


def test_without_an_event_loop_it_is_the_same(tmp_path):
    assert fill_sync(thinker(tmp_path, value="12"), "How is it?", Place, think=True).reasoning == THOUGHT
