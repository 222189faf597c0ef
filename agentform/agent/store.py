"""Where conversations are kept between runs and processes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from agentform.agent.conversation import Conversation

__all__ = ["ConversationInfo", "ConversationStore"]


@dataclass(frozen=True, kw_only=True)
class ConversationInfo:
    """A conversation in a store, without its messages."""

    id: str
    num_messages: int
    updated_s: float
    """When it was saved last, in seconds since 1970."""


class ConversationStore(Protocol):
    """Keeps conversations by their id: ``Agent(engine, store=SQLiteStore("talks.sqlite"))``.

    What `load` returns equals what was saved: messages with their calls, evidence and usage, token ids, model.
    Methods raise StoreError and must not block the event loop.
    """

    async def load(self, conversation_id: str) -> Conversation | None:
        """The conversation as it was saved last; `None` when there is none with this id."""
        ...

    async def save(self, conversation: Conversation) -> None:
        """Keep the conversation as it is now, all or nothing, and count up its `version`.

        Raises:
            ConversationChanged: another save came between the version that this one grew from and now.
        """
        ...

    async def delete(self, conversation_id: str) -> bool:
        """Forget a conversation; whether there was one."""
        ...

    async def conversations(self) -> Sequence[ConversationInfo]:
        """All that are kept, the one saved last first."""
        ...
