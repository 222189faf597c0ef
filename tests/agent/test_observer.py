"""Observers: operations nest, carry usage, and hold content only for those who ask."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import pytest

from agentform.agent.agent import Agent
from agentform.agent.observer import Done, Operation, Report, RunObserved, ToolObserved, TurnObserved
from agentform.errors import EngineClosed, ToolFailed
from agentform.testing import Call, Fail, Say, ScriptedEngine

pytestmark = pytest.mark.anyio


class Recorder:
    def __init__(self, *, content: bool) -> None:
        self.content = content
        self.seen: list[tuple[int, Operation, Done | None, BaseException | None]] = []
        self._depth = 0

    @contextmanager
    def observe(self, operation: Operation) -> Generator[Report]:
        self._depth += 1
        done: list[Done] = []
        error = None
        try:
            yield done.append
        except BaseException as raised:
            error = raised
            raise
        finally:
            self.seen.append((self._depth, operation, done[0] if done else None, error))
            self._depth -= 1


def weather(city: str) -> str:
    """Says how it is."""
    if city == "Oslo":
        raise LookupError("no Oslo")
    return f"sunny in {city}"


async def test_operations_nest_and_carry_usage():
    recorder = Recorder(content=False)
    engine = ScriptedEngine([Call("weather", {"city": "Rome"}), Say("It is sunny.")])
    result = await Agent(engine, tools=[weather], name="guide", observers=[recorder]).run("How is Rome?")
    kinds = [(depth, type(operation)) for depth, operation, _, _ in recorder.seen]
    assert kinds == [(2, TurnObserved), (2, ToolObserved), (2, TurnObserved), (1, RunObserved)]
    turn, tool, answer, run = recorder.seen
    assert (tool[1].tool, tool[1].description, tool[1].call_id) == ("weather", "Says how it is.", result.calls[0].id)
    assert (turn[2].calls, tool[2].finish, run[2].finish) == (("weather",), "ok", "answer")
    assert turn[2].usage + answer[2].usage == run[2].usage == result.usage
    assert {operation.agent for _, operation, _, _ in recorder.seen} == {"guide"}
    assert {operation.conversation for _, operation, _, _ in recorder.seen} == {result.conversation.id}


@pytest.mark.parametrize("content", [True, False])
async def test_content_is_for_those_who_ask(content):
    asks, other = Recorder(content=content), Recorder(content=not content)
    engine = ScriptedEngine([Call("weather", {"city": "Rome"}), Say("It is sunny.")])
    await Agent(engine, tools=[weather], observers=[asks, other]).run("How is Rome?")
    told = {True: [("", {"city": "Rome"}), "sunny in Rome", "It is sunny."], False: [(None, None), None, None]}
    for recorder in (asks, other):
        turn, tool, _, run = recorder.seen
        assert [(turn[2].content, tool[1].arguments), tool[2].content, run[2].content] == told[recorder.content]


async def test_an_error_that_is_fed_back_is_named_and_one_that_is_raised_ends_the_operation():
    recorder = Recorder(content=False)
    engine = ScriptedEngine([Call("weather", {"city": "Oslo"}), Say("Sorry.")])
    await Agent(engine, tools=[weather], observers=[recorder]).run("Hi")
    _, tool, _, run = recorder.seen
    assert (tool[2].finish, tool[2].error, tool[3]) == ("error", "LookupError", None)
    assert run[3] is None

    recorder = Recorder(content=False)
    engine = ScriptedEngine([Call("weather", {"city": "Oslo"})])
    with pytest.raises(ToolFailed):
        await Agent(engine, tools=[weather], observers=[recorder], on_tool_error="raise").run("Hi")
    assert [(done, type(error)) for _, _, done, error in recorder.seen[1:]] == [(None, ToolFailed)] * 2


async def test_what_the_engine_raises_is_seen():
    recorder = Recorder(content=False)
    with pytest.raises(EngineClosed):
        await Agent(ScriptedEngine([Fail(EngineClosed("gone"))]), observers=[recorder]).run("Hi")
    assert [type(error) for _, _, _, error in recorder.seen] == [EngineClosed] * 2
