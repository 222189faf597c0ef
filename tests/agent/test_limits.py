"""Limits that make a run answer: tokens, and whatever its user counts."""

from __future__ import annotations

import pytest

from agentform.agent.agent import Agent
from agentform.decoding.limits import Limits
from agentform.testing import Call, Say, ScriptedEngine

pytestmark = pytest.mark.anyio


def weather(city: str) -> str:
    """Says how it is."""
    return f"sunny in {city}"


ROME = Call("weather", {"city": "Rome"}, text="I look it up.")
OSLO = Call("weather", {"city": "Oslo"}, text="And there.")


async def test_a_run_answers_when_only_the_answers_tokens_are_left():
    agent = Agent(ScriptedEngine([ROME, Say("It is sunny.")]), tools=[weather])
    spent = len("I look it up.") + 1 + len('"Rome"')
    limits = Limits(completion_tokens=spent + 20, answer_tokens=20)
    result = await agent.run("Hi", limits=limits)
    assert (result.output, result.finish, len(result.calls)) == ("It is sunny.", "tokens", 1)
    assert result.usage.completion_tokens <= spent + 20


async def test_a_run_that_has_no_token_left_ends_cut_off():
    agent = Agent(ScriptedEngine([ROME, Say("It is sunny.")]), tools=[weather])
    spent = len("I look it up.") + 1 + len('"Rome"')
    result = await agent.run("Hi", limits=Limits(completion_tokens=spent, answer_tokens=1))
    assert (result.output, result.finish) == ("", "length")
    assert result.usage.completion_tokens == spent


async def test_a_run_answers_when_its_user_says_that_it_cost_enough():
    seen = []

    def enough(usage):
        seen.append(usage)
        return len(seen) == 2

    agent = Agent(ScriptedEngine([ROME, OSLO, Say("Sunny, both.")]), tools=[weather], limits=Limits(stop_when=enough))
    result = await agent.run("Hi")
    assert (result.output, result.finish, len(result.calls)) == ("Sunny, both.", "stopped", 2)
    assert seen == [result.calls[0].usage, result.calls[0].usage + result.calls[1].usage]


async def test_a_user_may_end_the_run_with_an_error_of_their_own():
    class TooDear(Exception):
        pass

    def refuse(usage):
        raise TooDear

    agent = Agent(ScriptedEngine([ROME]), tools=[weather], limits=Limits(stop_when=refuse))
    conversation = None
    with pytest.raises(TooDear):
        await agent.run("Hi", conversation=conversation)


@pytest.mark.parametrize("name", ["parallel_calls", "tools_at_once", "steps"])
def test_limits_that_allow_nothing_are_refused(name):
    with pytest.raises(ValueError, match=f"Limits.{name} must be at least 1"):
        Limits(**{name: 0})
