"""What `agentform.testing` offers beside the engine, and scripts with several calls in a turn."""

from __future__ import annotations

import pytest

from agentform.agent.agent import Agent
from agentform.decoding.limits import Limits
from agentform.testing import ByteTokenizer, Call, Say, ScriptedEngine, assert_calls, assert_script_done, prompts

pytestmark = pytest.mark.anyio


def weather(city: str) -> str:
    """Says how it is."""
    return f"sunny in {city}"


async def test_helpers_say_what_was_asked_called_and_left():
    engine = ScriptedEngine([Call("weather", {"city": "Rome"}), Say("Sunny."), Say("Never said.")])
    result = await Agent(engine, tools=[weather]).run("How is Rome?")
    assert_calls(result.calls, ("weather", {"city": "Rome"}))
    with pytest.raises(AssertionError, match=r"'Rome'.*\n.*'Oslo'"):
        assert_calls(result.calls, ("weather", {"city": "Oslo"}))
    with pytest.raises(AssertionError, match="calls differ"):
        assert_calls(result.calls)
    with pytest.raises(AssertionError, match="1 turns of the script were not played"):
        assert_script_done(engine)
    first, second = prompts(engine)
    assert "How is Rome?" in first
    assert "sunny in Rome" not in first
    assert "sunny in Rome" in second


@pytest.mark.parametrize("native", [False, True])
async def test_further_calls_of_a_turn_are_made_only_where_they_may_be(native):
    def script():
        also = [Call("weather", {"city": "Oslo"}), Call("weather", {"city": "Bern"})]
        return ScriptedEngine(
            [Call("weather", {"city": "Rome"}, also=also), Say("Sunny.")], tokenizer=ByteTokenizer(tool_template=native)
        )

    for most in (1, 2, 3, 5):
        engine = script()
        result = await Agent(engine, tools=[weather], limits=Limits(parallel_calls=most)).run("How is it?")
        assert [call.arguments["city"] for call in result.calls] == ["Rome", "Oslo", "Bern"][:most]
        assert_script_done(engine)


async def test_a_tool_may_be_called_answer_among_further_calls():
    def answer() -> str:
        """Answers."""
        return "42"

    engine = ScriptedEngine([Call("answer", also=[Say("", name="answer_")]), Say("Done.", name="answer_")])
    result = await Agent(engine, tools=[answer, weather], limits=Limits(parallel_calls=3)).run("What?")
    assert [call.name for call in result.calls] == ["answer"]
