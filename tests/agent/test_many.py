"""Many agents at once, with tools that wait, fail and are cancelled: nothing is lost, doubled or left behind."""

from __future__ import annotations

import gc
import os
import random
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Literal

import anyio
import pytest

import agentform.agent.run as run_module
from agentform.agent.agent import Agent
from agentform.agent.conversation import Conversation
from agentform.agent.sqlite_store import SQLiteStore
from agentform.decoding.limits import Limits
from agentform.errors import DeadlineExceeded
from agentform.events import ToolFinished
from agentform.forms.label_prior import PriorStore
from agentform.testing import Call, Say, ScriptedEngine
from agentform.tools.context import RunContext
from agentform.tools.tool import tool
from agentform.tools.toolset import Toolbox
from tests.support.engines import settled
from tests.support.waiting import PATIENCE_S

NUM_AGENTS = 200


@dataclass
class Shop:
    """Tools that note when they begin and when they end."""

    begun: Counter[str] = field(default_factory=Counter)
    ended: Counter[str] = field(default_factory=Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)

    @cached_property
    def tools(self) -> Toolbox:
        """Made once: making tools takes longer than the runs."""

        async def order(item: str) -> str:
            """Orders."""
            return await self._work(item)

        @tool(timeout_s=0.5, retries=1, backoff_s=0)
        async def pack(item: str) -> str:
            """Packs."""
            return await self._work(item)

        def ship(item: str) -> str:
            """Ships, in a thread."""
            with self.lock:
                self.begun[item] += 1
            time.sleep(int(item) % 3 / 1000)
            with self.lock:
                self.ended[item] += 1
            return f"done {item}"

        return Toolbox([order, pack, ship])

    async def _work(self, item: str) -> str:
        self.begun[item] += 1
        await anyio.sleep(int(item) % 7 / 1000)
        if int(item) % 5 == 0:
            raise LookupError(f"no {item}")
        self.ended[item] += 1
        return f"done {item}"


def script_of(number: int) -> list[Call | Say]:
    """Three turns with two calls each, every one with an item of its own, and an answer."""
    pick = random.Random(number)
    turns: list[Call | Say] = []
    for at in range(3):
        items = [str(number * 100 + at * 10 + n) for n in range(2)]
        first, second = (Call(pick.choice(["order", "pack", "ship"]), {"item": item}) for item in items)
        turns.append(Call(first.name, first.arguments, text="So.", also=[second]))
    return [*turns, Say("All done.")]


def items_of(number: int) -> list[str]:
    return [str(number * 100 + at * 10 + n) for at in range(3) for n in range(2)]


async def run_one(number: int, shop: Shop, store: SQLiteStore | None, priors: PriorStore) -> Conversation:
    """Every third run is left at its second result, every seventh has next to no time."""
    conversation = Conversation(id=f"talk {number}")
    limits = Limits(parallel_calls=2, deadline_s=0.02 if number % 7 == 0 else None)
    agent = Agent(ScriptedEngine(script_of(number)), tools=shop.tools, limits=limits, store=store, priors=priors)
    results = 0
    try:
        async with agent.stream("Go", conversation=conversation) as run:
            async for event in run:
                results += isinstance(event, ToolFinished)
                if number % 3 == 0 and results == 2:
                    break
    except DeadlineExceeded:
        assert number % 7 == 0
    return conversation


def check(number: int, conversation: Conversation, shop: Shop) -> None:
    """Each call has one result, and what the results say is what happened."""
    calls = [call for m in conversation.messages for call in m.calls]
    results = [m.result for m in conversation.messages if m.role == "tool"]
    assert [result.call_id for result in results] == [call.id for call in calls]
    for call, result in zip(calls, results, strict=True):
        item = call.arguments["item"]
        assert result.content == f"done {item}" or result.is_error
        if not result.is_error:
            assert shop.ended[item] == 1
        retried = call.name == "pack"
        assert shop.begun[item] <= 1 + retried
    assert not conversation.running
    if number % 3 and number % 7:
        assert [call.arguments["item"] for call in calls] == items_of(number)
        assert conversation.messages[-1].content == "All done."
        assert all(shop.begun[item] >= 1 for item in items_of(number))


def num_descriptors() -> int:
    """Open files and sockets of this process."""
    return len(os.listdir("/dev/fd"))


def threads_that_stay(before: set[threading.Thread]) -> list[threading.Thread]:
    """Those since `before` that do not end; asyncio's workers need a moment, trio keeps idle ones for ten seconds."""
    since = [each for each in threading.enumerate() if each not in before and not each.name.startswith("Trio")]
    for each in since:
        each.join(PATIENCE_S)
    return [each for each in since if each.is_alive()]


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_two_hundred_agents_at_once(backend, tmp_path, monkeypatch):
    monkeypatch.setattr(run_module, "_SAVE_S", PATIENCE_S)  # fifty transactions on one file, also of a busy machine
    shop = Shop()
    store = SQLiteStore(tmp_path / "talks.sqlite", busy_s=60)
    conversations: dict[int, Conversation] = {}
    priors = PriorStore()

    async def one(number: int) -> None:
        # Every fourth conversation is kept: each save is a transaction of its own on the one file.
        conversations[number] = await run_one(number, shop, store if number % 4 == 0 else None, priors)

    async def play() -> list[anyio.TaskInfo]:
        before = anyio.get_running_tasks()
        async with anyio.create_task_group() as group:
            for number in range(NUM_AGENTS):
                group.start_soon(one, number)
        return [task for task in anyio.get_running_tasks() if task not in before]

    gc.collect()
    threads, descriptors = set(threading.enumerate()), num_descriptors()
    left = anyio.run(play, backend=backend)
    gc.collect()
    assert left == []
    assert threads_that_stay(threads) == []
    assert num_descriptors() == descriptors
    assert sorted(conversations) == list(range(NUM_AGENTS))
    for number, conversation in conversations.items():
        check(number, conversation, shop)
    check_kept(store, conversations)


def check_kept(store: SQLiteStore, conversations: dict[int, Conversation]) -> None:
    async def load() -> None:
        for number in range(0, NUM_AGENTS, 4):
            held = conversations[number]
            assert await store.load(held.id) == (held if held.messages else None)

    anyio.run(load)
    assert Path(store.path).exists()


@pytest.fixture
def tiny_engine(tiny_folder):
    from agentform.runtime.torch.engine import TorchEngine

    engine = TorchEngine(tiny_folder, num_threads=1)
    yield engine
    engine.close()


def test_agents_that_share_an_engine_leave_nothing_in_it(tiny_engine):
    made: Counter[str] = Counter()
    run_by_tool: Counter[str] = Counter()

    async def light(run: RunContext[int], room: Literal["hall", "kitchen", "attic"], on: bool) -> str:
        """Switches."""
        run_by_tool[run.call.id] += 1
        await anyio.sleep(run.context % 5 / 1000)
        if run.context % 4 == 0:
            raise LookupError("broken")
        return room

    limits = Limits(steps=3, parallel_calls=2, reasoning_tokens=6, answer_tokens=8, same_call=9)
    agent = Agent(tiny_engine, tools=[light], limits=limits)

    async def one(number: int) -> None:
        async with agent.stream(f"I am number {number}", context=number) as run:
            async for event in run:
                made.update([event.call.id] if isinstance(event, ToolFinished) else [])
                if number % 3 == 0 and isinstance(event, ToolFinished):
                    break

    async def play() -> None:
        async with anyio.create_task_group() as group:
            for number in range(40):
                group.start_soon(one, number)
        await settled(tiny_engine)

    anyio.run(play)
    assert made
    assert set(run_by_tool.values()) == {1}
    assert set(made.values()) == {1}
    assert set(made) <= set(run_by_tool)
    assert tiny_engine.statistics().live_tokens == 0
