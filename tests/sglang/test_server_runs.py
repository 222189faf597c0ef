"""Agents on a real server: killed in the middle of a run, back again, and eight at once."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Literal

import anyio
import pytest

from agentform import Agent, Conversation, Limits, load_engine, tool
from agentform.errors import EngineUnavailable
from agentform.events import AnswerDelta, ReasoningDelta
from agentform.runtime.http.retry_policy import RetryPolicy
from benchmarks.sglang.servers import free_port, server
from tests.support.tiny_model import write_tiny_model

pytestmark = pytest.mark.anyio
OPTIONS = {"max_total_tokens": 8192, "max_running_requests": 16}
LIMITS = Limits(steps=2, reasoning_tokens=6, answer_tokens=12)
PATIENT = RetryPolicy(retries=10_000, first_wait_s=0.2, longest_wait_s=0.5)


@pytest.fixture(scope="module")
def anyio_backend():
    return "asyncio"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    found = tmp_path_factory.mktemp("tiny_model")
    write_tiny_model(found, max_position_embeddings=2048, initializer_range=0.06)
    return found


@pytest.fixture(scope="module")
def place(folder):
    """A server at a port that it gets again when it is started anew."""
    with Place(folder) as found:
        yield found


class Place:
    def __init__(self, folder) -> None:
        self.folder = folder
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._stack = ExitStack()

    def start(self) -> None:
        self.running = self._stack.enter_context(server(self.folder, port=self.port, **OPTIONS))

    def __enter__(self) -> Place:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()


@tool
def set_light(room: Literal["kitchen", "office"], on: bool) -> str:
    """Switch the light in a room."""
    return f"The light in the {room} is {'on' if on else 'off'}."


async def test_eight_agents_at_once_find_their_conversations_cached(place):
    engine = load_engine(place.url)
    agent = Agent(engine, tools=[set_light], limits=LIMITS)
    talks = [Conversation(id=f"home-{number}") for number in range(8)]

    async def hold(talk):
        for message in ("Light in the office, please.", "And now in the kitchen."):
            result = await agent.run(f"{talk.id}: {message}", conversation=talk)
            assert result.usage.completion_tokens

    async with anyio.create_task_group() as group:
        for talk in talks:
            group.start_soon(hold, talk)
    seen = engine.statistics()
    assert set(seen.conversations) == {talk.id for talk in talks}
    for found in seen.conversations.values():
        assert found.hit_tokens > found.lookup_tokens / 2
    await engine.aclose()


async def test_a_server_killed_in_the_middle_of_a_stream_is_a_typed_error_and_serves_again_when_it_is_back(place):
    engine = load_engine(place.url, retries=PATIENT)
    agent = Agent(engine, limits=Limits(steps=1, reasoning_tokens=900, answer_tokens=900))
    message = await talkative(agent)
    talk = Conversation(id="killed")
    heard: list[str] = []

    async def run_until_killed():
        async with agent.stream(message, conversation=talk) as run:
            async for event in run:
                if isinstance(event, ReasoningDelta | AnswerDelta) and event.text:
                    heard.append(event.text)
                    if len(heard) == 3:
                        place.running.kill()

    with pytest.raises(EngineUnavailable):
        await run_until_killed()
    assert len(heard) >= 3
    assert len(talk.messages) == 0  # what an unfinished run began is taken back
    short = Agent(engine, limits=LIMITS)
    async with anyio.create_task_group() as group:
        group.start_soon(anyio.to_thread.run_sync, place.start)
        # Nothing listens now: the run waits for the server, as long as its retries and its deadline say.
        result = await short.run("Are you back?", conversation=talk)
    assert result.usage.completion_tokens
    assert len(talk.messages) == 2
    await engine.aclose()


async def talkative(agent) -> str:
    """A message to which the model, which is greedy, says much."""
    for number in range(30):
        message = f"Tell me everything about {number}."
        if (await agent.run(message)).usage.completion_tokens > 200:
            return message
    raise AssertionError("the tiny model is silent")


async def test_a_server_killed_while_a_tool_runs_is_waited_for_within_the_run(place):
    """What the run has done by then stays; only what was not answered is asked again."""
    engine = load_engine(place.url, retries=PATIENT)
    async with anyio.create_task_group() as group:
        light = Light(place, group)
        limits = Limits(steps=2, reasoning_tokens=0, answer_tokens=12)
        agent = Agent(engine, tools=[tool(light.set_light)], limits=limits)
        for number in range(30):  # a random model calls sooner or later
            result = await agent.run(f"Request {number}: the light in the office, please.")
            if light.num_calls:
                break
    assert len(result.calls) == light.num_calls == 1
    assert result.usage.completion_tokens
    await engine.aclose()


class Light:
    """Kills the server when it is switched, and starts it again."""

    def __init__(self, place, group) -> None:
        self.num_calls = 0
        self._place = place
        self._group = group

    async def set_light(self, room: Literal["kitchen", "office"], on: bool) -> str:
        """Switch the light in a room."""
        self.num_calls += 1
        self._place.running.kill()
        self._group.start_soon(anyio.to_thread.run_sync, self._place.start)
        return "done"


async def test_without_patience_a_lost_server_is_unavailable(place):
    engine = load_engine(place.url, retries=RetryPolicy(retries=2, first_wait_s=0.01))
    place.running.kill()
    with pytest.raises(EngineUnavailable, match="tried 3 times"):
        await Agent(engine, limits=LIMITS).run("Anybody there?")
    await engine.aclose()
