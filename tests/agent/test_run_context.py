"""What tools are told of the run that calls them, and the model is not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import pytest

from agentform.agent.agent import Agent
from agentform.errors import ToolError, UnsupportedSignature
from agentform.messages import Usage
from agentform.testing import Call, Say, ScriptedEngine
from agentform.tools.context import RunContext
from agentform.tools.tool import tool

pytestmark = pytest.mark.anyio


@dataclass(frozen=True)
class Customer:
    name: str


SEEN: list[RunContext[Any]] = []


@tool(strict_docs=True)
def orders(run: RunContext[Customer], city: str) -> str:
    """Lists orders.

    Args:
        city: Where they go.
    """
    SEEN.append(run)
    return f"{run.context.name}: {city}"


@tool
async def note(text: str, *, run: Annotated[RunContext[Customer], "the run"]) -> str:
    """Keeps a note."""
    SEEN.append(run)
    return text


async def test_a_tool_is_told_of_its_run():
    SEEN.clear()
    engine = ScriptedEngine([Call("orders", {"city": "Rome"}), Call("note", {"text": "x"}), Say("Done.")])
    agent = Agent(engine, tools=[orders, note], name="clerk")
    result = await agent.run("Hi", context=Customer("Ada"))
    first, second = SEEN
    assert result.messages[2].content == "Ada: Rome"
    assert (first.context, first.agent, first.attempt) == (Customer("Ada"), "clerk", 0)
    assert (first.call, second.call) == result.calls
    assert first.conversation == result.conversation.id
    assert first.messages == result.messages[:2]
    assert second.messages == result.messages[:4]
    assert first.usage == result.calls[0].usage
    assert second.usage == result.calls[0].usage + result.calls[1].usage
    assert first.remaining_s is None


async def test_the_model_does_not_see_the_parameter():
    engine = ScriptedEngine([Call("orders", {"city": "Rome"}), Say("Done.")])
    await Agent(engine, tools=[orders]).run("Hi", context=Customer("Ada"))
    assert set(orders.target.form.schema["properties"]) == {"city"}
    assert "RunContext" not in "".join(engine.tokenizer.decode(request.prompt_ids) for request in engine.requests)


async def test_a_retried_tool_is_told_which_attempt_it_is():
    attempts = []

    @tool(retries=2, backoff_s=0)
    def flaky(run: RunContext) -> str:
        """Fails twice."""
        attempts.append(run.attempt)
        if run.attempt < 2:
            raise OSError("again")
        return "done"

    result = await Agent(ScriptedEngine([Call("flaky"), Say("Done.")]), tools=[flaky]).run("Hi")
    assert (attempts, result.messages[2].content) == ([0, 1, 2], "done")


async def test_what_a_tool_used_is_added_to_the_run():
    @tool
    def ask(run: RunContext) -> str:
        """Asks another model."""
        run.charge(Usage(prompt_tokens=100, completion_tokens=7))
        return "asked"

    engine = ScriptedEngine([Call("ask"), Say("Done.")])
    result = await Agent(engine, tools=[ask]).run("Hi")
    plain = await Agent(ScriptedEngine([Call("ask"), Say("Done.")]), tools=[tool(name="ask")(lambda: "asked")]).run(
        "Hi"
    )
    assert result.usage.completion_tokens == plain.usage.completion_tokens + 7


async def test_a_function_can_still_be_called_and_run_with_a_context_of_ones_own():
    [call] = (
        await Agent(ScriptedEngine([Call("note", {"text": "x"}), Say("")]), tools=[note]).run("Hi", context=None)
    ).calls
    run = RunContext(context=Customer("Bob"), call=call, agent="me", conversation="c", messages=(), usage=Usage())
    assert orders(run, "Oslo") == "Bob: Oslo"
    assert await orders.run({"city": "Oslo"}, context=run) == "Bob: Oslo"
    with pytest.raises(ToolError, match="'orders' needs a RunContext"):
        await orders.run({"city": "Oslo"})


async def test_a_context_that_may_be_missing_is_given_where_there_is_one():
    @tool
    def who(run: RunContext[str] | None = None) -> str:
        """Says who."""
        return run.context if run else "nobody"

    result = await Agent(ScriptedEngine([Call("who"), Say("Done.")]), tools=[who]).run("Hi", context="Ada")
    assert (result.messages[2].content, await who.run({})) == ("Ada", "nobody")


def test_one_context_is_enough():
    with pytest.raises(UnsupportedSignature, match="a and b are both a RunContext"):

        @tool
        def both(a: RunContext[int], b: RunContext[str]) -> None:
            """Wants two."""
