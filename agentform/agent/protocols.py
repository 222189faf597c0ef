"""What the parts of a run ask of an agent and of the run, so that they need neither class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, Unpack

from agentform.agent.approval import Approve
from agentform.agent.conversation import Conversation
from agentform.agent.observer import Observer
from agentform.agent.options import RunOptions, RunSettings
from agentform.decoding.limits import Limits
from agentform.decoding.session import Session
from agentform.events import Emit
from agentform.messages import Message
from agentform.runtime.engine import Engine
from agentform.schema.target import Target
from agentform.tools.policy import OnToolError
from agentform.tools.tool import Tool
from agentform.turn.turn import TurnRunner

__all__ = ["AgentLike", "RunView"]


class AgentLike(Protocol):
    """An agent, as those see it that run it, hand over to it or answer with it; see `Agent`."""

    name: str
    description: str
    engine: Engine
    caller: TurnRunner
    """Makes the agent's turns."""
    on_tool_error: OnToolError
    settings: RunSettings
    """What its runs are given unless they are told otherwise."""

    @property
    def tools(self) -> Mapping[str, Tool[..., Any]]:
        """Its tools by name."""
        ...

    @property
    def handoffs(self) -> Mapping[str, AgentLike]:
        """Agents that may take over, by the name under which the model sees the handoff."""
        ...

    @property
    def form(self) -> Target | None:
        """What its answer fills; `None` for text."""
        ...

    async def run(self, prompt: str | Sequence[Message], **options: Unpack[RunOptions]) -> Any:
        """Run to the end; see `Agent.run`."""
        ...

    def run_sync(self, prompt: str | Sequence[Message], **options: Unpack[RunOptions]) -> Any:
        """Run to the end; see `Agent.run_sync`."""
        ...


class RunView(Protocol):
    """A run in progress, as the calls of one of its turns see it; see `Run`."""

    @property
    def agent(self) -> AgentLike:
        """The agent whose turn it is."""
        ...

    conversation: Conversation
    session: Session
    limits: Limits
    approve: Approve | None
    """Asked before each call."""
    observers: tuple[Observer, ...]
    emit: Emit
    context: Any
    """What tools with a `RunContext` parameter get as its `context`."""
