"""What a tool may ask to be told of the run that calls it; no part of the arguments that the model fills."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic

from typing_extensions import TypeVar

from agentform.messages import Message, ToolCall, Usage

__all__ = ["RunContext"]

T = TypeVar("T", default=None)


def _ignore(usage: Usage) -> None:
    del usage


@dataclass(frozen=True, kw_only=True)
class RunContext(Generic[T]):
    """A parameter with this annotation is filled by the agent and is not seen by the model.

    ::

        @tool
        def orders(run: RunContext[Customer], state: Literal["open", "done"]) -> list[str]:
            return run.context.orders(state)

        agent.run_sync("What is open?", context=Customer(…))
    """

    context: T
    """What the run was given as `context=`."""
    call: ToolCall
    """The call that is being run."""
    agent: str
    """Name of the agent that made it."""
    conversation: str
    """Id of the conversation."""
    messages: tuple[Message, ...]
    """The conversation so far, the message with the call included."""
    usage: Usage
    """What the run has used so far."""
    attempt: int = 0
    """Times that this call was tried before; see `tool(retries=…)`."""
    remaining_s: float | None = None
    """Seconds left until the run's deadline, when the tool was started."""
    charge: Callable[[Usage], None] = field(default=_ignore, repr=False)
    """Adds what a model used inside the tool to the usage of the run."""
    run: object = field(default=None, repr=False)
    """The run itself, for agents that run inside the tool."""
