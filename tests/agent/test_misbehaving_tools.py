"""Whatever a tool does, its call has a result, the run an answer, and the conversation a future."""

from __future__ import annotations

import asyncio
import itertools
import os
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass

import anyio
import anyio.from_thread
import pytest

from agentform import Agent, Conversation, Limits, tool
from agentform.agent.sqlite_store import SQLiteStore
from agentform.agent.store import ConversationStore
from agentform.errors import ToolAborted, ToolFailed
from agentform.testing import ByteTokenizer, Call, Say, ScriptedEngine
from tests.support.waiting import PATIENCE_S

pytestmark = pytest.mark.anyio


def nested(depth, value=1):
    for _ in range(depth):
        value = [value]
    return value


class Silent(Exception):
    def __str__(self):
        raise RuntimeError("not even this")


class Mute:
    def __str__(self):
        raise RuntimeError("no")

    __repr__ = __str__


@dataclass
class Row:
    name: str


def fails_midway() -> Iterator[str]:
    yield "line 1"
    raise OSError("disk failed")


async def fails_midway_async() -> AsyncIterator[str]:
    yield "line 1"
    raise OSError("disk failed")


async def own_task_cancelled():
    task = asyncio.ensure_future(asyncio.sleep(600))
    task.cancel()
    await task


async def leaves_a_group():
    async with anyio.create_task_group() as group:
        group.start_soon(leave)


async def leave():
    sys.exit("in a task")


def raises(error):
    def misbehave():
        raise error

    return misbehave


def raises_async(error):
    async def misbehave():
        await anyio.lowlevel.checkpoint()
        raise error

    return misbehave


ENDS = [
    (SystemExit("usage: convert IN OUT"), "SystemExit: usage: convert IN OUT"),
    (SystemExit(), "SystemExit"),
    (asyncio.CancelledError("mine"), "CancelledError: mine"),
    (BaseException("odd"), "BaseException: odd"),
    (Silent(), "Silent"),
    (RuntimeError("caf\udce9 \0"), "RuntimeError: caf\ufffd \ufffd"),
    (RecursionError("deep"), "RecursionError: deep"),
    (MemoryError(), "MemoryError"),
]


async def conversation_with(misbehave, store: ConversationStore | None = None):
    """The tool's result in a run that ends, after which another one ends too."""

    @tool(description="Does its worst.")
    def worst():
        raise AssertionError

    made = tool(name="worst", description="Does its worst.")(misbehave)
    talk = Conversation()
    agent = Agent(ScriptedEngine([Call("worst"), Say("ok"), Say("still here")]), tools=[made], store=store)
    with anyio.fail_after(PATIENCE_S):
        assert (await agent.run("Go", conversation=talk)).output == "ok"
        assert (await agent.run("Hello?", conversation=talk)).output == "still here"
    [result] = [message.result for message in talk.messages if message.role == "tool"]
    return result


@pytest.mark.parametrize(("error", "said"), ENDS)
@pytest.mark.parametrize("make", [raises, raises_async])
async def test_what_a_tool_raises_is_its_failure_and_no_business_of_the_program(make, error, said):
    result = await conversation_with(make(error))
    assert result.is_error
    assert said in result.content


@pytest.mark.parametrize("error", [StopIteration("done"), GeneratorExit(), KeyboardInterrupt("mine")])
async def test_what_a_plain_function_raises_in_its_thread_is_contained_as_well(error):
    result = await conversation_with(raises(error))
    assert result.is_error
    assert type(error).__name__ in result.content


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_task_of_the_tools_own_that_was_cancelled_is_no_cancellation_of_the_run(anyio_backend):
    assert "CancelledError" in (await conversation_with(own_task_cancelled)).content


@pytest.mark.parametrize("anyio_backend", ["trio"])  # asyncio lets a task that leaves the program end its loop
async def test_a_task_group_whose_task_leaves_the_program_is_contained(anyio_backend):
    result = await conversation_with(leaves_a_group)
    assert result.is_error
    assert "ExceptionGroup" in result.content or "SystemExit" in result.content


@pytest.mark.parametrize("fn", [fails_midway, fails_midway_async])
async def test_a_generator_that_fails_midway_is_an_error(fn):
    result = await conversation_with(fn)
    assert result.is_error
    assert "disk failed" in result.content


async def test_the_parts_of_generators_reach_the_model():
    async def report() -> AsyncIterator[str]:
        yield "part 1"
        yield "part 2"

    async def lines() -> Iterator[int]:
        return (n for n in (1, 2))

    assert (await conversation_with(report)).content == '["part 1", "part 2"]'
    assert (await conversation_with(lambda: map(str, (1, 2)))).content == '["1", "2"]'
    assert (await conversation_with(lines)).content == "[1, 2]"


async def test_generators_without_end_are_cut():
    async def forever() -> AsyncIterator[int]:
        for n in itertools.count():
            yield n

    for fn in (lambda: itertools.count(), forever):
        result = await conversation_with(fn)
        assert "cut here: more than 10,000 parts" in result.content
        assert not result.is_error


async def test_text_that_is_no_unicode_reaches_the_model_with_replacements(tmp_path):
    store = SQLiteStore(tmp_path / "talks.db")
    text = os.fsdecode(b"caf\xe9.txt\0")
    assert (await conversation_with(lambda: text, store)).content == "caf\ufffd.txt\ufffd"
    assert (await conversation_with(lambda: {"name": [text], text: 1})).content == (
        '{"name": ["caf\ufffd.txt\ufffd"], "caf\ufffd.txt\ufffd": 1}'
    )
    assert not (await conversation_with(lambda: [Row(text)])).is_error
    assert (await conversation_with(lambda: "\ud83d\ude00")).content == "\U0001f600"


@pytest.mark.parametrize("depth", [3_000, 100_000])
async def test_what_is_nested_too_deeply_is_an_error(depth):
    result = await conversation_with(lambda: nested(depth))
    assert result.is_error
    assert "levels deep" in result.content


async def test_what_is_nested_as_deep_as_json_goes_is_written():
    assert (await conversation_with(lambda: nested(400))).content == "[" * 400 + "1" + "]" * 400


@pytest.mark.parametrize("value", [10**5000, [10**5000], {"n": 10**5000}], ids=["alone", "listed", "named"])
async def test_an_integer_of_too_many_digits_is_an_error(value):
    result = await conversation_with(lambda: value)
    assert result.is_error
    assert "digits" in result.content


async def test_what_cannot_say_what_it_is_is_told_by_its_type():
    assert "<Mute>" in (await conversation_with(Mute)).content


async def test_a_result_of_megabytes_is_cut_and_marked():
    result = await conversation_with(lambda: "row;" * 500_000)
    assert not result.is_error
    assert result.content.startswith("row;row;")
    assert result.content.endswith("row;")
    assert "characters are left out]" in result.content
    assert "of 2,000,000 characters" in result.content
    assert len(result.content) < 20_000


async def test_an_error_of_megabytes_is_cut_too():
    result = await conversation_with(raises(ValueError("x" * 3_000_000)))
    assert result.is_error
    assert result.content.startswith("Error: ValueError: xxx")
    assert len(result.content) < 20_000


def counted(monkeypatch, seen):
    """Calls `seen` wherever a text of the tool's rows is encoded that is about to be cut."""
    encode = ByteTokenizer.encode

    def watched(self, text, *, control=False):
        if text.startswith("row;"):
            seen()
        return encode(self, text, control=control)

    monkeypatch.setattr(ByteTokenizer, "encode", watched)


async def test_a_long_result_is_cut_while_others_go_on(monkeypatch):
    threads: set[int] = set()
    counted(monkeypatch, lambda: threads.add(threading.get_ident()))
    await conversation_with(lambda: "row;" * 500_000)
    assert threads
    assert threading.get_ident() not in threads


async def test_a_run_that_is_stopped_while_a_result_is_cut_tells_the_result(monkeypatch):
    engine, talk = ScriptedEngine([Call("rows"), Say("ok")]), Conversation()
    agent = Agent(engine, tools=[tool(name="rows")(lambda: "row;" * 500_000)])
    with anyio.CancelScope() as scope:
        counted(monkeypatch, lambda: anyio.from_thread.run_sync(scope.cancel))
        await agent.run("Go", conversation=talk)
    assert scope.cancelled_caught
    assert talk.messages[-1].content.startswith("row;row;")


async def test_an_error_of_megabytes_that_ends_the_run_is_cut_beside_what_another_call_told():
    calls = [Call("fine", also=[Call("worst")]), Say("ok")]
    worst = tool(name="worst", on_error="raise")(raises(ValueError("x" * 3_000_000)))
    fine, talk = tool(name="fine")(lambda: "done"), Conversation()
    agent = Agent(ScriptedEngine(calls), tools=[fine, worst], limits=Limits(parallel_calls=2))
    with pytest.raises(ToolFailed):
        await agent.run("Go", conversation=talk)
    assert [message.content for message in talk.messages[-2:-1]] == ["done"]
    assert talk.messages[-1].content.startswith("Error: ValueError: xxx")
    assert len(talk.messages[-1].content) < 20_000


async def test_results_leave_room_in_the_context_again_and_again():
    def rows() -> str:
        return "row;" * 5000

    calls = [Call("rows", also=[Call("rows")])] * 6
    engine = ScriptedEngine([*calls, Say("ok")], context_tokens=20_000)
    limits = Limits(parallel_calls=2, same_call=99, steps=9, reasoning_tokens=8, answer_tokens=8)
    result = await Agent(engine, tools=[tool(rows)], limits=limits).run("Go")
    assert result.output == "ok"


async def test_the_limit_of_results_can_be_set():
    engine = ScriptedEngine([Call("rows"), Say("ok")])
    agent = Agent(engine, tools=[tool(name="rows")(lambda: "a" * 5000)], limits=Limits(result_tokens=100))
    message = (await agent.run("Go")).messages[2]
    assert len(message.content) <= 100
    assert "cut here" in message.content
    with pytest.raises(ValueError, match="result_tokens"):
        Limits(result_tokens=0)


async def test_where_the_policy_is_to_raise_the_run_ends_with_an_exception():
    agent = Agent(ScriptedEngine([Call("worst")]), tools=[tool(name="worst")(leave)], on_tool_error="raise")
    with pytest.raises(ToolFailed, match="SystemExit: in a task") as caught:
        await agent.run("Go")
    assert isinstance(caught.value.__cause__, ToolAborted)
    assert isinstance(caught.value.__cause__.__cause__, SystemExit)


async def test_a_contained_end_can_be_tried_again():
    left = [SystemExit(1), asyncio.CancelledError()]

    @tool(retries=2, backoff_s=0, timeout_s=PATIENCE_S)
    async def moody() -> str:
        if left:
            raise left.pop()
        return "fine"

    assert await moody.run({}) == "fine"


async def test_a_real_cancellation_goes_through():
    reached = anyio.Event()

    async def wait() -> None:
        reached.set()
        await anyio.sleep_forever()

    done = []
    agent = Agent(ScriptedEngine([Call("wait"), Say("late")]), tools=[tool(wait)])

    async def run():
        await agent.run("Go")
        done.append(1)

    async with anyio.create_task_group() as group:
        group.start_soon(run)
        await reached.wait()
        group.cancel_scope.cancel()
    assert not done


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_cancellation_of_asyncios_own_goes_through(anyio_backend):
    reached = anyio.Event()

    async def wait() -> None:
        reached.set()
        await anyio.sleep_forever()

    agent = Agent(ScriptedEngine([Call("wait"), Say("late")]), tools=[tool(wait)])
    task = asyncio.ensure_future(agent.run("Go"))
    await reached.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
