"""A conversation: its messages, and the token ids with which the engine saw them."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import takewhile

from agentform.errors import InvalidInput
from agentform.messages import Message

__all__ = ["Conversation"]


def _new_id() -> str:
    return f"conv_{uuid.uuid4().hex[:12]}"


@dataclass(kw_only=True)
class Conversation:
    """Grows with every run. One run at a time; the agent refuses a second one meanwhile."""

    id: str = field(default_factory=_new_id)
    messages: list[Message] = field(default_factory=list[Message])
    token_ids: tuple[int, ...] = ()
    """What the engine saw of it so far; keeps the prefix stable where text and tokens differ."""
    model: str = ""
    """Digest of the model whose tokens `token_ids` are; they mean nothing to another one."""
    version: int = 0
    """Times that a store has saved it; tells whether someone else has saved it meanwhile."""
    running: bool = False

    def add(self, prompt: str | Sequence[Message]) -> None:
        """Append what the user says next.

        Raises:
            InvalidInput: nothing is said, or the last message is not one that a model can answer.
        """
        new = [Message(role="user", content=prompt)] if isinstance(prompt, str) else list(prompt)
        if not new and not self.messages:
            raise InvalidInput("a run needs at least one message; the conversation is empty")
        self.messages += new
        if self.messages[-1].role not in ("user", "tool"):
            raise InvalidInput(f"the last message must be the user's or a tool's, not the {self.messages[-1].role}'s")

    def past(self, model: str) -> tuple[int, ...]:
        """`token_ids`, if they are of the model with this digest."""
        return self.token_ids if self.model == model else ()

    def extend(self, message: Message, *, token_ids: tuple[int, ...], model: str) -> None:
        """Append a turn of the model's."""
        self.messages.append(message)
        self.token_ids, self.model = token_ids, model

    def roll_back(self, num_messages: int) -> None:
        """Undo an unfinished run that began after `num_messages`, as far as nothing has happened in the world.

        Calls that have run stay, with their results: the next run must know of them. A call without its result and
        an unanswered prompt go.
        """
        while len(self.messages) > num_messages and not self._is_complete():
            self.messages.pop()

    def _is_complete(self) -> bool:
        """Whether the last messages are the results of all calls of the assistant message before them."""
        results = list(takewhile(lambda message: message.role == "tool", reversed(self.messages)))
        caller = self.messages[-len(results) - 1] if len(results) < len(self.messages) else None
        return caller is not None and 0 < len(results) == len(caller.calls)
