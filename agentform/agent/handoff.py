"""Agents that other agents use: as the one that takes over the conversation, or as a tool that answers one question.

The model sees either as one more tool.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import replace
from typing import Annotated, Any, TypeVar

from agentform.agent.approval import strictest
from agentform.agent.conversation import Conversation
from agentform.agent.options import RunSettings
from agentform.agent.protocols import AgentLike
from agentform.agent.run import Run
from agentform.decoding.limits import Limits
from agentform.errors import DuplicateTool
from agentform.events import Event
from agentform.tools.context import RunContext
from agentform.tools.tool import Tool, tool

__all__ = ["agent_tool", "handoff_tools"]

AgentT = TypeVar("AgentT", bound=AgentLike)


def handoff_tools(taken: Container[str], agents: Iterable[AgentT]) -> dict[str, tuple[Tool[[], None], AgentT]]:
    """For each agent the tool that stands for handing over to it, by the tool's name: ``transfer_to_<agent>``.

    Raises:
        DuplicateTool: two agents share a name, or the tool's name is among those `taken`.
        InvalidToolName: the agent's name cannot be part of a tool's.
    """
    handoffs: dict[str, tuple[Tool[[], None], AgentT]] = {}
    for agent in agents:
        name = f"transfer_to_{agent.name}"
        if name in handoffs or name in taken:
            raise DuplicateTool(f"handing over to {agent.name!r} needs the name {name!r}, which is taken")
        description = f"Hand the conversation over to {agent.name}. {agent.description}".strip()
        handoffs[name] = (tool(name=name, description=description)(_hand_over), agent)
    return handoffs


def _hand_over() -> None:
    raise AssertionError("the run hands over; nothing calls this")


def agent_tool(agent: AgentLike, name: str, description: str, limits: Limits | None) -> Tool[..., Any]:
    """A tool that asks the agent; see `Agent.as_tool`."""

    async def ask(request: Annotated[str, "What it is asked to do."], run: RunContext[Any]) -> Any:
        below = Run(agent, Conversation(), _settings_below(agent.settings, limits, run), _ignore)
        try:
            return (await below.execute(request)).output
        finally:
            run.charge(below.session.usage)

    return tool(name=name, description=description)(ask)


def _settings_below(own: RunSettings, limits: Limits | None, above: RunContext[Any]) -> RunSettings:
    """The agent's own, within what is left to the run above it, and with what passes down from there."""
    limits = limits or own.limits
    deadlines = [seconds for seconds in (limits.deadline_s, above.remaining_s) if seconds is not None]
    limits = replace(limits, deadline_s=min(deadlines, default=None))
    run = above.run if isinstance(above.run, Run) else None
    return replace(
        own,
        limits=limits,
        context=above.context,
        approve=strictest(run.approve if run else None, own.approve),
        observers=own.observers or (run.observers if run else ()),
        store=None,
    )


async def _ignore(event: Event) -> None:
    del event
