"""What may be said for one run, and what a run is given in the end."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypedDict

from agentform.agent.approval import Approve
from agentform.agent.conversation import Conversation
from agentform.agent.observer import Observer
from agentform.agent.store import ConversationStore
from agentform.decoding.limits import Limits
from agentform.runtime.engine import Sampling

__all__ = ["RunOptions", "RunSettings"]


class RunOptions(TypedDict, total=False):
    """What may be said for one run; the same for `run`, `run_sync`, `stream` and `stream_sync`."""

    conversation: Conversation | str | None
    """The conversation to go on with; text is its id in the agent's store, where a new one is made if there is none."""
    limits: Limits | None
    """Instead of the agent's."""
    sampling: Sampling | None
    """Instead of the agent's."""
    context: Any
    """Whatever tools with a `RunContext` parameter shall get as its `context`."""
    approve: Approve | None
    """Instead of the agent's."""


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """What a run is given, beside its agent and its conversation: the agent's own, with the options of the run."""

    limits: Limits
    sampling: Sampling = field(default_factory=Sampling)
    context: Any = None
    approve: Approve | None = None
    observers: tuple[Observer, ...] = ()
    store: ConversationStore | None = None
