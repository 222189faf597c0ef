"""Questions that are asked each by itself."""

import pytest

from agentform import OneOf, PriorStore, Score, YesNo
from agentform.errors import InvalidInput, UnsupportedSchema
from agentform.forms.isolated import decide_isolated
from agentform.forms.label_prior import CONTENT_FREE
from agentform.testing import Fill, ScriptedEngine

pytestmark = pytest.mark.anyio
QUESTIONS = {
    "late": YesNo("Is it late?", yes="after noon"),
    "topic": OneOf("What is it?", ["money", "post"], ["", "parcels"]),
    "mood": Score("How happy?", least=0, levels=["sad", "glad"]),
}


def scripted() -> ScriptedEngine:
    script = [Fill("Is it", {"answer": True}), Fill("What", {"answer": "post"}), Fill("How", {"answer": 1})]
    return ScriptedEngine(script, probability=0.8)


async def test_each_is_answered_after_the_text_with_its_options_and_no_token_is_written():
    engine = scripted()
    found = await decide_isolated(engine, "It is noon.", QUESTIONS)
    assert {name: decision.value for name, decision in found.items()} == {"late": True, "topic": "post", "mood": 1}
    prompts = [engine.tokenizer.decode(request.prompt_ids) for request in engine.requests]
    [late] = [prompt for prompt in prompts if "noon.\n\nIs it late?" in prompt]
    assert "Is it late?\n- true: after noon\n- false<" in late
    assert found.usage.completion_tokens == 0
    asked = [request for request in engine.requests if not request.aside]
    assert found.prompt_usage.prompt_tokens == sum(len(request.prompt_ids) for request in asked)


async def test_priors_are_of_the_question_and_are_measured_once():
    engine, store = scripted(), PriorStore()
    first = await decide_isolated(engine, "It is noon.", QUESTIONS, priors=store)
    assert len(engine.requests) == len(QUESTIONS) * (1 + len(CONTENT_FREE))
    again = await decide_isolated(engine, "It is noon.", {"other name": QUESTIONS["topic"]}, priors=store)
    assert len(engine.requests) == len(QUESTIONS) * (1 + len(CONTENT_FREE)) + 1
    assert again["other name"] == first["topic"]


async def test_what_cannot_be_asked_is_refused():
    with pytest.raises(InvalidInput, match="at least one question"):
        await decide_isolated(scripted(), "x", {})
    with pytest.raises(UnsupportedSchema, match="'a' needs at least two options"):
        await decide_isolated(scripted(), "x", {"a": OneOf("?", ["one"])})
