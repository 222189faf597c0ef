"""Watching a run without an event loop, and inside one that is running."""

from __future__ import annotations

import threading

import pytest

from agentform.agent.agent import Agent
from agentform.agent.conversation import Conversation
from agentform.errors import EngineClosed, InvalidInput
from agentform.events import ChoiceMade, ReasoningDelta, RunFinished
from agentform.testing import Call, Fail, Say, ScriptedEngine
from tests.support.waiting import PATIENCE_S


def ping() -> str:
    """Says pong."""
    return "pong"


def agent_of(*script):
    return Agent(ScriptedEngine(script or [Call("ping", text="So."), Say("Done.")]), tools=[ping])


def watch(agent, **options):
    with agent.stream_sync("Hi", **options) as run:
        return list(run), run


def test_events_can_be_read_without_a_loop():
    before = set(threading.enumerate())
    events, run = watch(agent_of())
    assert "".join(e.text for e in events if isinstance(e, ReasoningDelta)) == "So.Done."
    assert [e.decision.value for e in events if isinstance(e, ChoiceMade)] == ["ping", None]
    assert isinstance(events[-1], RunFinished)
    assert run.result.output == "Done."
    since = [thread for thread in threading.enumerate() if thread not in before]
    for thread in since:  # workers are told to stop, and stop soon
        thread.join(PATIENCE_S)
    assert not any(thread.is_alive() for thread in since)


@pytest.mark.anyio
async def test_and_inside_a_loop_that_is_running():
    assert watch(agent_of())[1].result.output == "Done."


def test_leaving_early_cancels_the_run():
    conversation = Conversation()
    with agent_of().stream_sync("Hi", conversation=conversation) as run:
        for event in run:
            if isinstance(event, ReasoningDelta):
                break
        with pytest.raises(InvalidInput, match="not over"):
            _ = run.result
    assert (conversation.messages, conversation.running) == ([], False)


def test_what_ends_the_run_is_raised_where_the_events_are_read():
    error = EngineClosed("gone")
    with agent_of(Fail(error)).stream_sync("Hi") as run:
        with pytest.raises(EngineClosed) as caught:
            list(run)
        assert list(run) == []
    assert caught.value is error


def test_an_error_of_the_readers_own_arrives_as_it_is():
    error = KeyError("mine")

    def read() -> None:
        with agent_of().stream_sync("Hi") as run:
            next(run)
            raise error

    with pytest.raises(KeyError) as caught:
        read()
    assert caught.value is error
