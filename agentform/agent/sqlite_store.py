"""Conversations in one SQLite file, which several processes may share.

Every operation opens the file, does its work in one transaction in a worker thread, and closes it: no connection is
shared between threads or survives a fork, and nothing is left to close.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from agentform._util.threads import STORES
from agentform.agent.conversation import Conversation
from agentform.agent.serialization import message_from_json, message_to_json, token_ids_from_bytes, token_ids_to_bytes
from agentform.agent.store import ConversationInfo
from agentform.errors import ConversationChanged, InvalidInput, StoreCorrupt, StoreError, StoreVersion
from agentform.messages import Message

__all__ = ["SQLiteStore", "encoded"]

T = TypeVar("T")

_APPLICATION_ID = 0x61676673
"""Marks the file as ours: "agfs" in its header."""
_LAYOUT = 1
_TABLES = """
CREATE TABLE conversations (
    id TEXT PRIMARY KEY, version INTEGER NOT NULL, model TEXT NOT NULL, token_ids BLOB NOT NULL, updated_s REAL NOT NULL
);
CREATE TABLE messages (
    conversation TEXT NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
    position INTEGER NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (conversation, position)
) WITHOUT ROWID;
"""


class SQLiteStore:
    """A `ConversationStore` in a file, made when it is first used.

    Methods raise, beside what the protocol says: StoreCorrupt for a file that is no store or is damaged,
    StoreVersion for one of another layout, and StoreError when it cannot be opened or stays locked for `busy_s`
    seconds.
    """

    def __init__(self, path: str | Path, *, busy_s: float = 10.0) -> None:
        self.path = Path(path)
        self._busy_s = busy_s

    async def load(self, conversation_id: str) -> Conversation | None:
        """See `ConversationStore.load`."""
        return await self._run(lambda connection: _load(connection, conversation_id))

    async def save(self, conversation: Conversation) -> None:
        """See `ConversationStore.save`."""
        # Taken now: the thread must not read what the event loop may change.
        await self.save_encoded(conversation, encoded(conversation))

    async def save_encoded(self, conversation: Conversation, bodies: Sequence[str]) -> None:
        """Save a conversation whose messages were `encoded` before, such as in a thread."""
        row = (conversation.id, conversation.version, conversation.model, token_ids_to_bytes(conversation.token_ids))
        commit = _Commit()
        try:
            await self._run(lambda connection: _save(connection, row, bodies), commit)
        finally:
            conversation.version += commit.close()

    async def delete(self, conversation_id: str) -> bool:
        """See `ConversationStore.delete`."""
        return await self._run(lambda connection: _delete(connection, conversation_id))

    async def conversations(self) -> Sequence[ConversationInfo]:
        """See `ConversationStore.conversations`."""
        return await self._run(_list)

    async def _run(self, work: Callable[[sqlite3.Connection], T], commit: _Commit | None = None) -> T:
        """In a thread. What is cancelled meanwhile is not waited for, and does not happen later either."""
        commit = commit or _Commit()
        try:
            return await STORES.run(self._in_transaction, work, commit)
        finally:
            commit.close()

    def _in_transaction(self, work: Callable[[sqlite3.Connection], T], commit: _Commit) -> T:
        with _typed_errors(self.path), closing(self._connect()) as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                _prepare(connection, self.path)
                result = work(connection)
            except BaseException:
                connection.rollback()
                raise
            commit.do(connection)
            return result

    def _connect(self) -> sqlite3.Connection:
        with suppress(OSError):  # sqlite says what is wrong with the place
            os.close(os.open(self.path, os.O_CREAT | os.O_CLOEXEC, 0o600))  # nobody else's business
        connection = sqlite3.connect(self.path, timeout=self._busy_s, isolation_level=None)
        try:
            if not _is_foreign(connection):
                _write_ahead(connection)
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute("PRAGMA foreign_keys = ON")
        except BaseException:
            connection.close()
            raise
        return connection


def encoded(conversation: Conversation) -> list[str]:
    """Its messages as they are kept.

    Raises:
        InvalidInput: a message holds what is not JSON.
    """
    return list(map(message_to_json, conversation.messages))


class _Commit:
    """The end of a transaction, which whoever waits for it may close before."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_closed = self._is_done = False

    def do(self, connection: sqlite3.Connection) -> None:
        """Commit, unless nobody waits any more."""
        with self._lock:
            if self._is_closed:
                connection.rollback()
                return
            connection.commit()
            self._is_done = True

    def close(self) -> bool:
        """Whether it was done; if not, it never will be."""
        with self._lock:
            self._is_closed = True
            return self._is_done


def _is_foreign(connection: sqlite3.Connection) -> bool:
    """Whether the file holds something that is not ours; an empty one is nobody's."""
    [application] = connection.execute("PRAGMA application_id").fetchone()
    [num_tables] = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    return application != _APPLICATION_ID and bool(application or num_tables)


def _write_ahead(connection: sqlite3.Connection) -> None:
    """Let readers and a writer work at the same time. The mode is kept in the file."""
    [mode] = connection.execute("PRAGMA journal_mode").fetchone()
    if mode != "wal":
        with suppress(sqlite3.OperationalError):  # another process is just doing it, and SQLite does not wait here
            connection.execute("PRAGMA journal_mode = WAL")


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    """Make the tables in a new file, and refuse one that is not ours."""
    if _is_foreign(connection):
        raise StoreCorrupt(f"{path} is a database of something else, not a conversation store")
    [layout] = connection.execute("PRAGMA user_version").fetchone()
    if layout == 0:
        for statement in _TABLES.split(";"):
            connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {_LAYOUT}")
    elif layout != _LAYOUT:
        raise StoreVersion(f"{path} has layout {layout}; this version of agentform reads {_LAYOUT}")


@contextmanager
def _typed_errors(path: Path) -> Generator[None]:
    try:
        yield
    except sqlite3.OperationalError as error:
        raise StoreError(f"cannot use the conversation store {path}: {error}") from error
    except UnicodeEncodeError as error:
        raise InvalidInput(f"a conversation's id must be Unicode text: {error}") from error
    except sqlite3.DatabaseError as error:
        raise StoreCorrupt(f"{path} is no conversation store, or a damaged one: {error}") from error


def _load(connection: sqlite3.Connection, conversation_id: str) -> Conversation | None:
    row = connection.execute(
        "SELECT version, model, token_ids FROM conversations WHERE id = ?", (conversation_id,)
    ).fetchone()
    if row is None:
        return None
    version, model, token_ids = row
    return Conversation(
        id=conversation_id,
        messages=_messages(connection, conversation_id),
        token_ids=token_ids_from_bytes(token_ids),
        model=model,
        version=version,
    )


def _messages(connection: sqlite3.Connection, conversation_id: str) -> list[Message]:
    rows = connection.execute(
        "SELECT position, body FROM messages WHERE conversation = ? ORDER BY position", (conversation_id,)
    ).fetchall()
    if [position for position, _ in rows] != list(range(len(rows))):
        raise StoreCorrupt(f"conversation {conversation_id!r}: messages are missing")
    return [message_from_json(body) for _, body in rows]


def _save(connection: sqlite3.Connection, row: tuple[str, int, str, bytes], bodies: Sequence[str]) -> None:
    conversation_id, version, model, token_ids = row
    saved = connection.execute("SELECT version FROM conversations WHERE id = ?", (conversation_id,)).fetchone()
    kept = 0 if saved is None else saved[0]
    if kept != version:
        raise ConversationChanged(
            f"conversation {conversation_id!r} was saved {kept} times, but {version} times when it was loaded"
        )
    connection.execute(
        "INSERT INTO conversations VALUES (?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET "
        "version = excluded.version, model = excluded.model, token_ids = excluded.token_ids, "
        "updated_s = excluded.updated_s",
        (conversation_id, version + 1, model, token_ids, time.time()),
    )
    _save_messages(connection, conversation_id, bodies)


def _save_messages(connection: sqlite3.Connection, conversation_id: str, bodies: Sequence[str]) -> None:
    """Write the messages that are new or differ; a conversation mostly grows at its end."""
    rows = connection.execute("SELECT position, body FROM messages WHERE conversation = ?", (conversation_id,))
    known = dict(rows.fetchall())
    changed = [(conversation_id, at, body) for at, body in enumerate(bodies) if known.get(at) != body]
    connection.executemany("INSERT OR REPLACE INTO messages VALUES (?, ?, ?)", changed)
    connection.execute("DELETE FROM messages WHERE conversation = ? AND position >= ?", (conversation_id, len(bodies)))


def _delete(connection: sqlite3.Connection, conversation_id: str) -> bool:
    return connection.execute("DELETE FROM conversations WHERE id = ?", (conversation_id,)).rowcount > 0


def _list(connection: sqlite3.Connection) -> list[ConversationInfo]:
    rows = connection.execute(
        "SELECT id, (SELECT count(*) FROM messages WHERE conversation = id), updated_s FROM conversations "
        "ORDER BY updated_s DESC, id"
    )
    return [ConversationInfo(id=key, num_messages=num, updated_s=at) for key, num, at in rows]
