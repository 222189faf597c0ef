"""One turn over given messages, on both event loops."""

from __future__ import annotations

from typing import Literal

import anyio
import pytest
from pydantic import BaseModel

from agentform import (
    AnswerDelta,
    ArgumentChosen,
    CallReady,
    ChoiceMade,
    Limits,
    Message,
    ReasoningDelta,
    Responder,
    Sampling,
    Toolbox,
    UseTool,
)
from agentform.errors import DeadlineExceeded, InvalidInput, UnknownTool
from agentform.runtime.engine import GenerateRequest, ScoreRequest
from agentform.testing import ByteTokenizer, Call, Fill, Say, ScriptedEngine, scripted_call
from tests.support.waiting import PATIENCE_S

pytestmark = pytest.mark.anyio


def light(room: Literal["kitchen", "office"], on: bool) -> str:
    """Switch the light in a room."""
    raise AssertionError("a responder runs no tool")


def note(text: str) -> str:
    """Keep a note."""
    raise AssertionError("a responder runs no tool")


class Mood(BaseModel):
    """How somebody feels."""

    mood: Literal["good", "bad"]
    why: str


USER = [Message(role="user", content="It is dark in the office.")]
SWITCH = Call("light", {"room": "office", "on": True}, text="I switch it on.")
TOOLS = Toolbox([light, note])


def prompt_of(engine, at: int = 0) -> str:
    return engine.tokenizer.decode(engine.requests[at].prompt_ids)


@pytest.mark.parametrize("native", [False, True])
async def test_a_turn_ends_with_a_call_that_nobody_runs(native):
    engine = ScriptedEngine([SWITCH], tokenizer=ByteTokenizer(tool_template=native))
    response = await Responder(engine).respond(USER, tools=TOOLS)
    assert (response.finish, response.message.content) == ("calls", "I switch it on.")
    assert [(call.name, dict(call.arguments)) for call in response.calls] == [("light", {"room": "office", "on": True})]
    assert response.decision.value == "light"
    assert response.usage.reasoning_tokens == len("I switch it on.") + 1
    assert response.prompt_usage.prompt_tokens == len(engine.requests[0].prompt_ids)
    assert response.usage.prompt_tokens == sum(len(request.prompt_ids) for request in engine.requests)


async def test_a_turn_may_be_an_answer_and_history_is_what_was_given():
    engine = ScriptedEngine([Say("Done.")])
    past = [*USER, *scripted_call("light", {"room": "office", "on": True}, "It is on.")]
    system = [Message(role="system", content="Be brief."), Message(role="system", content="Be kind.")]
    response = await Responder(engine).respond([*system, *past], tools=TOOLS)
    assert (response.finish, response.message.content, response.calls) == ("answer", "Done.", ())
    prompt = prompt_of(engine)
    assert prompt.startswith("<|im_start|>system\nBe brief.\n\nBe kind.\n\nYou can call these tools:\n- light: Switch")
    assert prompt.count("<|im_start|>system") == 1
    assert "It is on." in prompt


async def test_without_tools_or_with_none_the_model_can_only_answer():
    engine = ScriptedEngine([Say("Hello."), Say("I may not.")])
    assert (await Responder(engine).respond(USER)).decision is None
    response = await Responder(engine).respond(USER, tools=TOOLS, tool_choice="none")
    assert (response.message.content, response.decision) == ("I may not.", None)
    assert "- light: Switch" in prompt_of(engine, 1)


async def test_a_required_call_is_made_whatever_was_said():
    engine = ScriptedEngine([Call("note", {"text": "x"}, text="I would rather not.")])
    response = await Responder(engine).respond(USER, tools=TOOLS, tool_choice="required")
    assert response.calls[0].name == "note"
    assert {other.value for other in response.decision.alternatives} == {"light"}


async def test_one_tool_that_must_be_used_is_not_scored_but_all_are_told():
    engine = ScriptedEngine([Call("note", {"text": "x"})])
    response = await Responder(engine).respond(USER, tools=TOOLS, tool_choice=UseTool("note"))
    assert (response.calls[0].name, response.decision.how) == ("note", "fixed")
    assert "- light: Switch" in prompt_of(engine)


async def test_without_reasoning_tokens_the_step_is_chosen_at_once():
    engine = ScriptedEngine([Call("note", {"text": "x"}), Say("Hello there.")])
    responder = Responder(engine, limits=Limits(reasoning_tokens=0))
    response = await responder.respond(USER, tools=TOOLS)
    assert (response.message.content, response.usage.reasoning_tokens, len(response.calls)) == ("", 0, 1)
    assert isinstance(engine.requests[0], ScoreRequest)


async def test_an_answer_can_be_a_form():
    engine = ScriptedEngine([Fill("It is dark", {"mood": "bad", "why": "dark"})])
    response = await Responder(engine).respond(USER, output=Mood)
    assert response.output == Mood(mood="bad", why="dark")
    assert response.message.content == '{"mood": "bad", "why": "dark"}'
    assert [item.how for item in response.evidence] == ["scored", "generated"]
    assert "How somebody feels." in prompt_of(engine)


async def test_a_stop_text_ends_the_turn_as_an_answer():
    engine = ScriptedEngine([Say("One. Two.")])
    response = await Responder(engine).respond(USER, tools=TOOLS, stop=[" Two"])
    assert (response.message.content, response.finish, response.decision.how) == ("One.", "answer", "fixed")


async def test_all_sampled_tokens_share_one_limit():
    engine = ScriptedEngine([Say("A long answer that goes on."), Call("note", {"text": "x" * 50}, text="So.")])
    responder = Responder(engine)
    limits = Limits(completion_tokens=6, reasoning_tokens=6, answer_tokens=6)
    response = await responder.respond(USER, limits=limits)
    assert (response.message.content, response.finish, response.usage.completion_tokens) == ("A long", "length", 6)
    response = await responder.respond(USER, tools=TOOLS, limits=Limits(completion_tokens=10))
    assert (response.finish, response.calls, response.message.content) == ("length", (), "So.")
    assert (response.truncated.pointer, response.usage.completion_tokens) == ("/text", 10)
    assert (response.prompt_usage.prompt_tokens, response.prompt_usage.cached_tokens) == (
        len(engine.requests[1].prompt_ids),
        0,
    )


async def test_sampling_and_the_conversation_reach_the_engine():
    engine = ScriptedEngine([Say("Hi.")])
    sampling = Sampling(temperature=0.5, top_p=0.9, seed=7)
    await Responder(engine).respond(USER, sampling=sampling, conversation="c")
    [request] = engine.requests
    assert (request.sampling, request.conversation) == (sampling, "c")


async def test_every_request_of_a_turn_draws_with_a_seed_of_its_own():
    engine = ScriptedEngine([Call("pair", {"left": "a", "right": "a"})])
    sampling = Sampling(temperature=1.0, seed=7)

    def pair(left: str, right: str) -> str:
        """Two texts."""
        raise AssertionError("a responder runs no tool")

    await Responder(engine).respond(USER, tools=[pair], tool_choice="required", sampling=sampling)
    seeds = [request.sampling.seed for request in engine.requests if isinstance(request, GenerateRequest)]
    assert seeds == [7, 8, 9]


async def test_events_come_while_the_turn_runs_and_the_response_after():
    responder = Responder(ScriptedEngine([SWITCH, Say("Hi.")]))
    async with responder.stream(USER, tools=TOOLS) as turn:
        with pytest.raises(InvalidInput, match="not over"):
            _ = turn.result
        events = [event async for event in turn]
    text = "".join(event.text for event in events if isinstance(event, ReasoningDelta))
    assert text == "I switch it on."
    assert [type(event) for event in events[-4:]] == [ChoiceMade, ArgumentChosen, ArgumentChosen, CallReady]
    assert turn.result.calls == (events[-1].call,)
    async with responder.stream(USER) as turn:
        assert [event.text async for event in turn if isinstance(event, AnswerDelta)] == ["Hi."]


async def test_leaving_a_stream_early_cancels_the_turn():
    responder = Responder(ScriptedEngine([Say("a b c"), Say("Late.", delay_s=60)]))
    with anyio.fail_after(PATIENCE_S):
        async with responder.stream(USER) as turn:
            assert (await anext(turn)).text == "a"
        async with responder.stream(USER):
            pass


async def test_errors_arrive_where_the_events_are_read():
    responder = Responder(ScriptedEngine([Say("Late.", delay_s=60)]))
    async with responder.stream(USER, limits=Limits(deadline_s=0.01)) as turn:
        with pytest.raises(DeadlineExceeded):
            await anext(turn)


async def test_a_named_conversation_keeps_its_token_ids():
    engine = ScriptedEngine([Say("Hi."), Say("Again.")])
    responder = Responder(engine)
    first = await responder.respond(USER, conversation="c")
    await responder.respond([*USER, first.message, Message(role="user", content="More")], conversation="c")
    before = engine.requests[0].prompt_ids + engine.tokenizer.encode("Hi.")
    assert engine.requests[1].prompt_ids[: len(before)] == before


@pytest.mark.parametrize(
    ("messages", "options", "error"),
    [
        ([], {}, InvalidInput),
        ([Message(role="system", content="x")], {}, InvalidInput),
        (USER, {"tool_choice": "required"}, InvalidInput),
        (USER, {"tools": TOOLS, "tool_choice": UseTool("gone")}, UnknownTool),
    ],
)
async def test_what_cannot_be_answered_is_refused(messages, options, error):
    engine = ScriptedEngine([])
    with pytest.raises(error):
        await Responder(engine).respond(messages, **options)
    assert engine.requests == []
