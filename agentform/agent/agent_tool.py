"""An agent as a tool of another agent."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

from agentform.agent.conversation import Conversation
from agentform.agent.run import Run, RunSettings
from agentform.decoding.limits import Limits
from agentform.events import Event
from agentform.tools.context import RunContext
from agentform.tools.tool import Tool, tool

if TYPE_CHECKING:
    from agentform.agent.agent import Agent

__all__ = ["agent_tool"]


def agent_tool(agent: Agent[Any], name: str, description: str, limits: Limits | None) -> Tool[..., Any]:
    """A tool that asks the agent; see `Agent.as_tool`."""

    async def ask(request: Annotated[str, "What it is asked to do."], run: RunContext[Any]) -> Any:
        below = Run(agent, Conversation(), _settings(agent, limits, run), _ignore)
        try:
            return (await below.execute(request)).output
        finally:
            run.charge(below.session.usage)

    return tool(name=name, description=description)(ask)


def _settings(agent: Agent[Any], limits: Limits | None, above: RunContext[Any]) -> RunSettings:
    """The agent's own, within what is left to the run above it, and with what passes down from there."""
    own = agent.settings
    limits = limits or own.limits
    deadlines = [seconds for seconds in (limits.deadline_s, above.remaining_s) if seconds is not None]
    limits = replace(limits, deadline_s=min(deadlines, default=None))
    run = above.run if isinstance(above.run, Run) else None
    return replace(
        own,
        limits=limits,
        context=above.context,
        approve=own.approve or (run.approve if run else None),
        observers=own.observers or (run.observers if run else ()),
        store=None,
    )


async def _ignore(event: Event) -> None:
    del event
