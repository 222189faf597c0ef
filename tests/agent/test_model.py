"""Agents on the demo model."""

from __future__ import annotations

import functools
from typing import Literal

import anyio
import anyio.to_thread
import pytest
import torch
from pydantic import BaseModel

from agentform.agent.agent import Agent
from agentform.agent.conversation import Conversation
from agentform.decoding.limits import Limits
from agentform.errors import ContextOverflow
from agentform.events import CallReady, ChoiceMade, ReasoningDelta
from agentform.forms.scoring import Scoring
from agentform.runtime.torch.engine import TorchEngine
from tests.support.engines import settled
from tests.support.watched_engine import WatchedEngine

pytestmark = [pytest.mark.anyio, pytest.mark.model]
HOUSE = "You control a house with tools."
LIMITS = Limits(steps=2, reasoning_tokens=8, answer_tokens=8, argument_tokens=16)


@pytest.fixture
def anyio_backend():
    return "asyncio"


def light(room: Literal["kitchen", "hall", "bathroom"], state: Literal["on", "off"]) -> str:
    """Switch a light on or off."""
    return f"{room} {state}"


def weather(city: str) -> str:
    """Say how the weather is in a city."""
    return f"sunny in {city}"


def house(engine, scoring=None):
    return Agent(engine, tools=[light, weather], instructions=HOUSE, limits=LIMITS, scoring=scoring)


async def test_a_call_with_closed_arguments_costs_no_token_after_the_reasoning(demo_engine):
    # Pinned: which room so small a model picks turns on the calibration, and the default follows measurements.
    result = await house(demo_engine, Scoring(calibration=0.7)).run("Switch on the light in the kitchen.")
    [call] = result.calls
    assert (call.name, call.arguments) == ("light", {"room": "kitchen", "state": "on"})
    assert 0 < call.usage.completion_tokens == call.usage.reasoning_tokens <= 8
    assert {e.how for e in call.evidence} == {"scored"}
    assert [m.content for m in result.messages if m.role == "tool"] == [
        f"{call.arguments['room']} {call.arguments['state']}"
    ]
    assert result.finish in ("steps", "length")


async def test_a_free_argument_is_generated(demo_engine):
    result = await house(demo_engine).run("What is the weather in Rome?")
    [call] = result.calls
    assert (call.name, call.evidence[0].how) == ("weather", "generated")
    assert "Rome" in call.arguments["city"]
    assert call.usage.completion_tokens > call.usage.reasoning_tokens


@pytest.mark.parametrize("instructions", ["", "Be brief, <|im_end|> and kind."])
async def test_the_first_prompt_is_what_transformers_renders(demo_engine, weights_folder, instructions):
    from transformers import AutoTokenizer

    theirs = AutoTokenizer.from_pretrained(weights_folder)
    watched = WatchedEngine(demo_engine)
    await Agent(watched, instructions=instructions, limits=Limits(answer_tokens=1)).run("Hello, Münster 🚀")
    system = [{"role": "system", "content": instructions}] if instructions else []
    messages = [*system, {"role": "user", "content": "Hello, Münster 🚀"}]
    prompt = watched.generated[0].prompt_ids
    text = theirs.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
    assert demo_engine.tokenizer.decode(prompt) == text
    if not instructions:  # what spells a control token is data here, and is not there
        ids = theirs.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
        assert list(prompt) == list(ids)
    assert prompt[0] == theirs.bos_token_id
    assert prompt.count(theirs.bos_token_id) == 3


async def test_the_next_prompt_begins_with_the_token_ids_of_the_past(demo_engine):
    watched = WatchedEngine(demo_engine)
    conversation = Conversation()
    agent = house(watched)
    await agent.run("Switch on the light in the kitchen.", conversation=conversation)
    past = conversation.token_ids
    first, second = (r.prompt_ids for r in watched.generated if r.grammar is None)
    assert second[: len(first)] == first
    await agent.run("Thank you.", conversation=conversation)
    assert watched.generated[2].prompt_ids[: len(past)] == past


async def run_all(agent, prompts, *, at_once):
    results = {}

    async def run(prompt):
        results[prompt] = await agent.run(prompt)

    if at_once:
        async with anyio.create_task_group() as group:
            for prompt in prompts:
                group.start_soon(run, prompt)
    else:
        for prompt in prompts:
            await run(prompt)
    return {p: ([(c.name, c.arguments) for c in r.calls], r.output, r.finish) for p, r in results.items()}


async def test_two_conversations_at_once_are_the_same_as_one_after_the_other(demo_engine):
    prompts = ["Switch off the light in the hall.", "What is the weather in Paris?"]
    one_by_one = await run_all(house(demo_engine), prompts, at_once=False)
    assert await run_all(house(demo_engine), prompts, at_once=True) == one_by_one
    assert all(calls for calls, _, _ in one_by_one.values())


async def test_a_cold_engine_makes_the_same_call_with_the_same_evidence(demo_engine, weights_folder):
    prompt = "Switch on the light in the kitchen."
    [warm] = (await house(demo_engine).run(prompt)).calls
    load = functools.partial(TorchEngine, weights_folder, dtype=torch.float32)
    async with await anyio.to_thread.run_sync(load) as fresh:
        [cold] = (await house(fresh).run(prompt)).calls
        await settled(fresh)
    assert (warm.name, warm.arguments) == (cold.name, cold.arguments)
    for a, b in zip((warm.decision, *warm.evidence), (cold.decision, *cold.evidence), strict=True):
        assert a.probability == pytest.approx(b.probability, abs=1e-3)
        assert a.raw_probability == pytest.approx(b.raw_probability, abs=1e-3)
        assert a.legal_mass == pytest.approx(b.legal_mass, abs=1e-3)


async def test_a_prompt_longer_than_the_context_is_refused(demo_engine):
    conversation = Conversation()
    with pytest.raises(ContextOverflow) as caught:
        await Agent(demo_engine).run("word " * 9000, conversation=conversation)
    assert caught.value.prompt_tokens > caught.value.context_tokens == demo_engine.info.context_tokens
    assert conversation.messages == []


@pytest.mark.parametrize("moment", [ReasoningDelta, ChoiceMade])
async def test_a_run_that_is_left_frees_all_that_it_held(demo_engine, moment):
    conversation = Conversation()
    async with house(demo_engine).stream("What is the weather in Oslo?", conversation=conversation) as run:
        async for event in run:
            if isinstance(event, moment):
                break
    await settled(demo_engine)
    assert demo_engine.statistics().live_tokens == 0
    assert (conversation.messages, conversation.running) == ([], False)


async def test_several_calls_of_one_turn_are_all_valid_and_the_next_prompt_begins_with_them(demo_engine):
    watched = WatchedEngine(demo_engine)
    conversation = Conversation()
    limits = Limits(steps=2, reasoning_tokens=8, answer_tokens=8, argument_tokens=16, parallel_calls=3)
    agent = Agent(watched, tools=[light, weather], instructions=HOUSE, limits=limits)
    seen = []
    prompt = "Switch on the lights in the kitchen and in the hall."
    async with agent.stream(prompt, conversation=conversation) as run:
        async for event in run:
            if isinstance(event, CallReady):
                seen.append(conversation.token_ids)
    calls = run.result.calls
    assert 1 < len(calls) <= 3
    assert len({(call.name, str(call.arguments)) for call in calls}) == len(calls)
    for call in calls:
        assert agent.tools[call.name].target.validator.check(call.arguments) == ()
    results = [m.result.call_id for m in conversation.messages if m.role == "tool"]
    assert results == [call.id for call in calls]
    last = [r.prompt_ids for r in watched.generated if r.grammar is None][-1]
    assert last[: len(seen[0])] == seen[0]


async def test_an_answer_is_a_form_after_a_tool(demo_engine):
    class Switched(BaseModel):
        """What was switched."""

        room: Literal["kitchen", "hall", "bathroom"]
        on: bool

    agent = Agent(demo_engine, tools=[light], instructions=HOUSE, limits=LIMITS, output_type=Switched)
    result = await agent.run("Switch on the light in the kitchen.")
    assert isinstance(result.output, Switched)
    assert [e.how for e in result.evidence] == ["scored", "scored"]
