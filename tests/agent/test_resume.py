"""Conversations that go on in another process: the store brings back what the engine saw of them."""

from __future__ import annotations

import functools

import anyio
import pytest

from agentform.agent.agent import Agent
from agentform.agent.conversation import Conversation
from agentform.agent.sqlite_store import SQLiteStore
from agentform.decoding.limits import Limits
from agentform.errors import ConversationChanged, EngineClosed, InvalidInput, StoreError
from agentform.events import ToolFinished, ToolStarted
from agentform.testing import Call, Fail, Say, ScriptedEngine

pytestmark = pytest.mark.anyio


def weather(city: str) -> str:
    """Says how it is."""
    return f"sunny in {city}"


ROME = Call("weather", {"city": "Rome"}, text="I  look\nit up. ")


def agent_of(path, *script, **options):
    return Agent(ScriptedEngine(script), tools=[weather], store=SQLiteStore(path), **options)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "talks.sqlite"


async def test_a_conversation_goes_on_where_it_was_and_the_engine_sees_the_same_beginning(path):
    first = agent_of(path, ROME, Say("Sunny."))
    result = await first.run("How is Rome?", conversation="ada")
    again = agent_of(path, Say("You are welcome."))
    second = await again.run("Thanks", conversation="ada")
    assert second.messages[:4] == result.messages
    assert second.conversation.id == "ada"
    past = result.conversation.token_ids
    [*_, request] = again.engine.requests[:1]
    assert request.prompt_ids[: len(past)] == past
    for request in (*first.engine.requests, *again.engine.requests):  # label priors are measured aside
        is_hers = "How is Rome?" in first.engine.tokenizer.decode(request.prompt_ids)
        assert request.conversation == ("ada" if is_hers else None)


async def test_what_was_computed_comes_back_too(path, tmp_path, tiny_folder):
    from agentform.runtime.torch.engine import TorchEngine

    make = functools.partial(TorchEngine, tiny_folder, num_threads=1, cache_dir=tmp_path / "cache")

    async def run(prompt: str):
        async with await anyio.to_thread.run_sync(make) as engine:
            agent = Agent(engine, limits=Limits(answer_tokens=8), store=SQLiteStore(path))
            return await agent.run(prompt, conversation="ada")

    first = await run("Tell me of the sea. " * 20)
    again = await run("Thank you.")
    assert again.messages[: len(first.messages)] == first.messages
    assert first.usage.cached_tokens == 0
    # Of the end of the last completion its last token was never computed.
    assert again.usage.cached_tokens >= len(first.conversation.token_ids) - 1


async def test_token_ids_of_another_model_are_not_used(path):
    result = await agent_of(path, ROME, Say("Sunny.")).run("How is Rome?", conversation="ada")
    kept = await SQLiteStore(path).load("ada")
    assert kept == result.conversation
    assert kept.past(kept.model) == result.conversation.token_ids != ()
    assert kept.past("another") == ()


async def test_every_step_that_had_an_effect_is_kept_even_if_the_run_fails_later(path):
    agent = agent_of(path, ROME, Fail(EngineClosed("gone")), Say("Back."))
    with pytest.raises(EngineClosed):
        await agent.run("How is Rome?", conversation="ada")
    kept = await SQLiteStore(path).load("ada")
    assert [m.content for m in kept.messages] == ["How is Rome?", "I  look\nit up.", "sunny in Rome"]
    assert (await agent.run("And?", conversation="ada")).output == "Back."


async def test_calls_that_were_half_done_are_kept_when_a_run_is_left(path):
    conversation = Conversation(id="ada")

    async def forever(city: str) -> str:
        """Waits in Oslo."""
        if city == "Oslo":
            await anyio.sleep_forever()
        return city

    script = Call("forever", {"city": "Rome"}, also=[Call("forever", {"city": "Oslo"})])
    agent = Agent(ScriptedEngine([script]), tools=[forever], store=SQLiteStore(path), limits=Limits(parallel_calls=2))
    async with agent.stream("Hi", conversation=conversation) as run:
        async for event in run:
            if isinstance(event, ToolFinished):
                break
    kept = await SQLiteStore(path).load("ada")
    assert kept == conversation
    assert [m.result.is_error for m in kept.messages if m.role == "tool"] == [False, True]


async def test_a_run_that_did_nothing_leaves_nothing(path):
    agent = agent_of(path, ROME)
    async with agent.stream("Hi", conversation="ada") as run:
        async for event in run:
            if isinstance(event, ToolStarted):
                break
    assert await SQLiteStore(path).load("ada") is None


async def test_two_runs_at_once_from_the_same_point_do_not_overwrite_each_other(path):
    waiting, go_on = anyio.Event(), anyio.Event()

    async def wait() -> str:
        """Waits."""
        waiting.set()
        await go_on.wait()
        return "waited"

    slow = Agent(ScriptedEngine([Call("wait"), Say("Slow.")]), tools=[wait], store=SQLiteStore(path))
    failures = []

    async def run() -> None:
        try:
            await slow.run("Hi", conversation="ada")
        except ConversationChanged as error:
            failures.append(error)

    async with anyio.create_task_group() as group:
        group.start_soon(run)
        await waiting.wait()
        await agent_of(path, Say("Quick.")).run("Hi", conversation="ada")
        go_on.set()
    assert len(failures) == 1
    assert [m.content for m in (await SQLiteStore(path).load("ada")).messages] == ["Hi", "Quick."]


async def test_an_id_needs_a_store_and_a_store_that_fails_is_a_typed_error(tmp_path):
    with pytest.raises(InvalidInput, match="the agent has no store"):
        await Agent(ScriptedEngine([])).run("Hi", conversation="ada")
    conversation = Conversation()
    with pytest.raises(StoreError):
        await agent_of(tmp_path / "no" / "where", Say("Hi.")).run("Hi", conversation=conversation)
    assert (conversation.messages, conversation.running) == ([], False)
