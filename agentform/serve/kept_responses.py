"""Answers that can be asked for again or gone on from by their id; each belongs to the client whose it was."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentform._util.lru import BoundedDict
from agentform._util.threads import STORES
from agentform.agent.conversation import Conversation
from agentform.agent.sqlite_store import SQLiteStore, encoded
from agentform.messages import Message

__all__ = ["KeptResponse", "KeptResponses"]

_IDS = re.compile(r"resp_[0-9a-f]{32}\Z")
_KEPT_CHARACTERS = 16_000_000
"""Of answers and conversations that are kept in memory for one client."""
_MOST_IN_FILE = 10_000
"""Answers of one client."""
_TIDIED_EVERY = 256


@dataclass(frozen=True, kw_only=True)
class KeptResponse:
    """An answer, and the conversation up to and including it."""

    body: dict[str, Any]
    messages: tuple[Message, ...]
    input_items: list[dict[str, Any]]


@dataclass(frozen=True, kw_only=True)
class _Measured:
    """An answer in memory, and the characters that it takes."""

    kept: KeptResponse
    size: int


class KeptResponses:
    """In a file of conversations, or in memory while the server runs: of each client those used last.

    In a file each is a conversation of its own, whose last message holds the answer's body. What one client asks for
    drives out nothing of another's, and nothing that others have put into the file.
    """

    def __init__(
        self, file: Path | None = None, *, kept_characters: int = _KEPT_CHARACTERS, most_in_file: int = _MOST_IN_FILE
    ) -> None:
        self._store = SQLiteStore(file) if file is not None else None
        self._kept_characters = kept_characters
        self._most_in_file = most_in_file
        self._memory: dict[str, BoundedDict[str, _Measured]] = {}
        self._num_saved: Counter[str] = Counter()

    async def save(self, client: str, kept: KeptResponse) -> None:
        """Keep an answer.

        Raises:
            StoreError: the file cannot be written.
        """
        if self._store is None:
            self._of(client)[kept.body["id"]] = await STORES.run(_measured, kept)
            return
        await self._store.save_encoded(*await STORES.run(_conversation, client, kept))
        self._num_saved[client] += 1
        if self._num_saved[client] % min(_TIDIED_EVERY, self._most_in_file) == 0:
            await self._tidy(self._store, client)

    async def load(self, client: str, response_id: str) -> KeptResponse | None:
        """An answer of this client; `None` where there is none with this id.

        Raises:
            StoreError: the file cannot be read.
        """
        if not _IDS.match(response_id):
            return None
        if self._store is None:
            measured = self._of(client).use(response_id)
            return measured and measured.kept
        found = await self._store.load(_key(client, response_id))
        return None if found is None else await STORES.run(_kept, found)

    async def delete(self, client: str, response_id: str) -> bool:
        """Forget an answer of this client; whether there was one.

        Raises:
            StoreError: the file cannot be written.
        """
        if self._store is not None:
            return bool(_IDS.match(response_id)) and await self._store.delete(_key(client, response_id))
        return self._of(client).pop(response_id) is not None

    def _of(self, client: str) -> BoundedDict[str, _Measured]:
        """There are as many clients as keys."""
        if client not in self._memory:
            self._memory[client] = BoundedDict(self._kept_characters, weight=lambda _, measured: measured.size)
        return self._memory[client]

    async def _tidy(self, store: SQLiteStore, client: str) -> None:
        """Forget the client's oldest beyond a number."""
        listed = [kept.id for kept in await store.conversations() if _is_of(client, kept.id)]
        for old in listed[self._most_in_file :]:
            await store.delete(old)


def _key(client: str, response_id: str) -> str:
    return f"{client}/{response_id}"


def _is_of(client: str, key: str) -> bool:
    owner, _, response_id = key.rpartition("/")
    return owner == client and _IDS.match(response_id) is not None


def _measured(kept: KeptResponse) -> _Measured:
    size = len(json.dumps([kept.body, kept.input_items])) + sum(len(message.content) for message in kept.messages)
    return _Measured(kept=kept, size=size)


def _conversation(client: str, kept: KeptResponse) -> tuple[Conversation, list[str]]:
    """The conversation that holds an answer, and its messages as they are saved."""
    record = Message(role="system", content=json.dumps([kept.body, kept.input_items]))
    made = Conversation(id=_key(client, kept.body["id"]), messages=[*kept.messages, record])
    return made, encoded(made)


def _kept(conversation: Conversation) -> KeptResponse:
    *messages, record = conversation.messages
    body, items = json.loads(record.content)
    return KeptResponse(body=body, messages=tuple(messages), input_items=items)
