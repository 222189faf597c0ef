"""Read by pyright alone: what a type checker knows of agents."""

# pyright: strict, reportUnnecessaryTypeIgnoreComment=true

from __future__ import annotations

from typing import Any, assert_type

from pydantic import BaseModel

from agentform import Agent, RunContext, RunResult, tool
from agentform.testing import ScriptedEngine


class Report(BaseModel):
    umbrella: bool


@tool(timeout_s=1)
def weather(run: RunContext[Report], city: str) -> str:
    """How it is."""
    return f"{city} {run.context.umbrella}"


engine = ScriptedEngine([])


async def outputs() -> None:
    plain = Agent(engine, tools=[weather])
    assert_type(plain, Agent[str])
    assert_type((await plain.run("Hi")).output, str)
    typed = Agent(engine, output_type=Report, tools=[weather])
    assert_type(typed, Agent[Report])
    assert_type(await typed.run("Hi", context=Report(umbrella=True)), RunResult[Report])
    assert_type(typed.run_sync("Hi").output.umbrella, bool)
    async with typed.stream("Hi") as run:
        assert_type(run.result.output, Report)
    with typed.stream_sync("Hi") as watched:
        assert_type(watched.result.output, Report)
    schema: dict[str, Any] = {"type": "object"}
    Agent(engine, output_type=schema, handoffs=[plain, typed])


def mistakes() -> None:
    Agent(engine).run_sync("Hi", limit=None)  # pyright: ignore[reportCallIssue]
    text: str = Agent(engine, output_type=Report).run_sync("Hi").output  # pyright: ignore[reportAssignmentType]
    print(text)
