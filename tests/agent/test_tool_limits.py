"""Limits of single tools: timeouts, retries, what happens when they fail."""

from __future__ import annotations

import sys
import threading
from types import SimpleNamespace

import anyio
import pytest

from agentform._util.threads import Threads
from agentform.agent.agent import Agent
from agentform.agent.sqlite_store import SQLiteStore
from agentform.errors import CallRejected, ToolFailed, ToolTimeout
from agentform.testing import Call, Say, ScriptedEngine
from agentform.tools.tool import tool
from tests.support.waiting import PATIENCE_S

pytestmark = pytest.mark.anyio


async def told(made, arguments=None, **options):
    """What the model is told of one call."""
    engine = ScriptedEngine([Call(made.name, arguments or {}), Say("Done.")])
    return (await Agent(engine, tools=[made], **options).run("Hi")).messages[2]


async def test_an_async_tool_that_is_too_slow_is_cancelled():
    stopped = anyio.Event()

    @tool(timeout_s=0.05)
    async def slow() -> None:
        """Takes its time."""
        try:
            await anyio.sleep(30)
        finally:
            stopped.set()

    with anyio.fail_after(PATIENCE_S):
        message = await told(slow)
    assert message.content == "Error: ToolTimeout: tool 'slow' did not end within 0.05 s"
    assert message.result.is_error
    assert stopped.is_set()


async def test_a_plain_tool_that_is_too_slow_is_left_to_end_by_itself():
    begun, go_on, ended = threading.Event(), threading.Event(), threading.Event()

    @tool(timeout_s=0.05)
    def slow() -> None:
        """Takes its time."""
        begun.set()
        go_on.wait(PATIENCE_S)
        ended.set()

    with anyio.fail_after(PATIENCE_S):
        message = await told(slow)
        while not begun.is_set():  # on a busy machine the time may be over before its thread runs
            message = await told(slow)
    assert "ToolTimeout" in message.content
    assert not ended.is_set()
    go_on.set()
    assert await anyio.to_thread.run_sync(ended.wait, PATIENCE_S)


async def test_a_timeout_of_its_own_is_not_taken_for_ours():
    @tool(timeout_s=5)
    async def late() -> None:
        """Gives up by itself."""
        raise TimeoutError("gave up")

    assert (await told(late)).content == "Error: TimeoutError: gave up"


def flaky(failures, **policy):
    left = list(failures)

    @tool(backoff_s=0.001, **policy)
    def fetch() -> str:
        """Fetches."""
        if left:
            raise left.pop(0)
        return "fetched"

    return fetch, left


async def test_a_failure_is_tried_again_as_often_as_it_may_be():
    made, left = flaky([OSError("1"), OSError("2"), OSError("3")], retries=2)
    assert (await told(made)).content == "Error: OSError: 3"
    assert left == []
    made, _ = flaky([OSError("1"), OSError("2")], retries=2)
    assert (await told(made)).content == "fetched"


async def test_only_the_failures_that_are_named_are_tried_again():
    made, left = flaky([OSError("1"), KeyError("2"), OSError("3")], retries=5, retry_on=[OSError])
    assert (await told(made)).content == "Error: KeyError: '2'"
    assert len(left) == 1


async def test_a_slow_attempt_can_be_tried_again():
    attempts = 0

    @tool(timeout_s=0.05, retries=1, backoff_s=0, retry_on=[ToolTimeout])
    async def slow_once() -> str:
        """Is slow at first."""
        nonlocal attempts
        attempts += 1
        if attempts == 1:
            await anyio.sleep_forever()
        return "done"

    with anyio.fail_after(PATIENCE_S):
        assert (await told(slow_once)).content == "done"


async def test_waits_between_attempts_double(monkeypatch):
    waits = []

    async def sleep(seconds):
        waits.append(seconds)

    own_anyio = SimpleNamespace(sleep=sleep, move_on_after=anyio.move_on_after)  # others' naps are none of these
    monkeypatch.setattr("agentform.tools.policy.anyio", own_anyio)

    @tool(retries=3, backoff_s=0.5)
    async def broken() -> None:
        """Fails."""
        raise OSError("no")

    assert (await told(broken)).result.is_error
    assert waits == [0.5, 1.0, 2.0]


async def test_every_attempt_gets_arguments_of_its_own():
    seen = []

    @tool(retries=1, backoff_s=0)
    def fill(items: list[int]) -> int:
        """Fills."""
        items.append(0)
        seen.append(items)
        if len(seen) == 1:
            raise OSError("again")
        return len(items)

    assert (await told(fill, {"items": [1]})).content == "2"


async def test_arguments_that_the_schema_refuses_are_not_tried_again():
    runs = 0

    @tool(retries=3)
    def count(n: int) -> None:
        """Counts."""
        nonlocal runs
        runs += 1

    with pytest.raises(CallRejected):
        await count.run({"n": "many"})
    assert runs == 0


@pytest.mark.parametrize("agents", ["raise", "feed_back"])
@pytest.mark.parametrize("tools", ["raise", "feed_back", None])
async def test_a_tools_own_policy_counts_more_than_the_agents(agents, tools):
    @tool(on_error=tools)
    def broken() -> None:
        """Fails."""
        raise LookupError("no")

    if (tools or agents) == "raise":
        with pytest.raises(ToolFailed):
            await told(broken, on_tool_error=agents)
    else:
        assert (await told(broken, on_tool_error=agents)).content == "Error: LookupError: no"


@pytest.mark.parametrize("policy", [{"timeout_s": 0}, {"timeout_s": -1}, {"retries": -1}, {"backoff_s": -0.1}])
async def test_limits_that_mean_nothing_are_refused(policy):
    with pytest.raises(ValueError, match="must"):
        tool(**policy)


async def test_the_time_until_there_is_a_thread_is_not_the_tools(monkeypatch):
    few = Threads("few", 1)
    monkeypatch.setattr(sys.modules["agentform.tools.tool"], "TOOLS", few)

    begun: list[float | None] = []

    def clock(seconds):
        begun.append(seconds)
        return anyio.move_on_after(seconds)

    monkeypatch.setattr(sys.modules["agentform.tools.policy"], "anyio", SimpleNamespace(move_on_after=clock))

    @tool(timeout_s=PATIENCE_S)
    def quick() -> str:
        """Is quick."""
        return "quick"

    results = []

    async def run():
        results.append(await told(quick))

    with anyio.fail_after(PATIENCE_S):
        async with anyio.create_task_group() as group:
            async with few.place():
                group.start_soon(run)
                await anyio.wait_all_tasks_blocked()
                assert begun == []
    assert begun == [PATIENCE_S]
    assert results[0].content == "quick"


async def test_any_number_of_blocked_tools_keeps_nothing_else_from_being_done(tmp_path):
    go_on = threading.Event()

    @tool
    def blocked() -> None:
        """Waits."""
        go_on.wait(PATIENCE_S)

    engine = ScriptedEngine([*(Call("blocked", {}) for _ in range(60)), *(Say("Done.") for _ in range(60))])
    stuck = Agent(engine, tools=[blocked])
    approved = []
    other = Agent(
        ScriptedEngine([Call("quick", {}), Say("Done.")]),
        tools=[tool(name="quick", description="Is quick.")(lambda: "quick")],
        approve=lambda call: approved.append(call.name) or True,
        store=SQLiteStore(tmp_path / "c.sqlite"),
    )
    try:
        with anyio.fail_after(PATIENCE_S):
            async with anyio.create_task_group() as group:
                for _ in range(60):
                    group.start_soon(stuck.run, "Hi")
                await anyio.wait_all_tasks_blocked()
                assert (await other.run("Hi", conversation="c")).output == "Done."
                group.cancel_scope.cancel()
    finally:
        go_on.set()
    assert approved == ["quick"]
