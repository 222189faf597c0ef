"""Handing a conversation over to another agent, which the model sees as one more tool without arguments."""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import TYPE_CHECKING, Any

from agentform.errors import DuplicateTool
from agentform.tools.tool import Tool, tool

if TYPE_CHECKING:
    from agentform.agent.agent import Agent

__all__ = ["handoff_tools"]


def handoff_tools(taken: Container[str], agents: Iterable[Agent[Any]]) -> dict[str, tuple[Tool[[], None], Agent[Any]]]:
    """For each agent the tool that stands for handing over to it, by the tool's name: ``transfer_to_<agent>``.

    Raises:
        DuplicateTool: two agents share a name, or the tool's name is among those `taken`.
        InvalidToolName: the agent's name cannot be part of a tool's.
    """
    made: dict[str, tuple[Tool[[], None], Agent[Any]]] = {}
    for agent in agents:
        name = f"transfer_to_{agent.name}"
        if name in made or name in taken:
            raise DuplicateTool(f"handing over to {agent.name!r} needs the name {name!r}, which is taken")
        description = f"Hand the conversation over to {agent.name}. {agent.description}".strip()
        made[name] = (tool(name=name, description=description)(_hand_over), agent)
    return made


def _hand_over() -> None:
    raise AssertionError("the run hands over; nothing calls this")
