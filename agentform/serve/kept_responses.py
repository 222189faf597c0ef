"""Answers that can be asked for again or gone on from by their id; each belongs to the client whose it was."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentform._util.lru import BoundedDict
from agentform.agent.conversation import Conversation
from agentform.agent.sqlite_store import SQLiteStore
from agentform.messages import Message

__all__ = ["KeptResponse", "KeptResponses"]

_IDS = re.compile(r"resp_[0-9a-f]{32}\Z")
_KEPT_CHARACTERS = 16_000_000
"""Of answers and conversations that are kept in memory."""
_MOST_IN_FILE = 10_000
_TIDIED_EVERY = 256


@dataclass(frozen=True, kw_only=True)
class KeptResponse:
    """An answer, and the conversation up to and including it."""

    body: dict[str, Any]
    messages: tuple[Message, ...]
    input_items: list[dict[str, Any]]


class KeptResponses:
    """In a file of conversations, or in memory while the server runs: the ones used last.

    In a file each is a conversation of its own, whose last message holds the answer's body.
    """

    def __init__(self, file: Path | None = None) -> None:
        self._store = SQLiteStore(file) if file is not None else None
        self._memory: BoundedDict[str, KeptResponse] = BoundedDict(
            _KEPT_CHARACTERS, weight=lambda _, kept: _characters(kept)
        )
        self._num_saved = 0

    async def save(self, client: str, kept: KeptResponse) -> None:
        """Keep an answer.

        Raises:
            StoreError: the file cannot be written.
        """
        key = f"{client}/{kept.body['id']}"
        if self._store is None:
            self._memory[key] = kept
            return
        record = Message(role="system", content=json.dumps([kept.body, kept.input_items]))
        await self._store.save(Conversation(id=key, messages=[*kept.messages, record]))
        self._num_saved += 1
        if self._num_saved % _TIDIED_EVERY == 0:
            await self._tidy(self._store)

    async def load(self, client: str, response_id: str) -> KeptResponse | None:
        """An answer of this client; `None` where there is none with this id.

        Raises:
            StoreError: the file cannot be read.
        """
        key = f"{client}/{response_id}"
        if not _IDS.match(response_id):
            return None
        if self._store is None:
            return self._memory.use(key)
        found = await self._store.load(key)
        if found is None:
            return None
        *messages, record = found.messages
        body, items = json.loads(record.content)
        return KeptResponse(body=body, messages=tuple(messages), input_items=items)

    async def delete(self, client: str, response_id: str) -> bool:
        """Forget an answer of this client; whether there was one.

        Raises:
            StoreError: the file cannot be written.
        """
        key = f"{client}/{response_id}"
        if self._store is not None:
            return bool(_IDS.match(response_id)) and await self._store.delete(key)
        return self._memory.pop(key) is not None

    @staticmethod
    async def _tidy(store: SQLiteStore) -> None:
        """Forget the oldest beyond a number."""
        kept: Sequence[Any] = await store.conversations()
        for old in kept[_MOST_IN_FILE:]:
            await store.delete(old.id)


def _characters(kept: KeptResponse) -> int:
    return len(json.dumps([kept.body, kept.input_items])) + sum(len(message.content) for message in kept.messages)
