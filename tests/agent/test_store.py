"""Conversations in SQLite: exact round trips, several users of one file, and files that are no store."""

from __future__ import annotations

import sqlite3
import sys
from contextlib import ExitStack, closing
from pathlib import Path

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import agentform.agent.run as run_module
from agentform.agent.agent import Agent
from agentform.agent.conversation import Conversation
from agentform.agent.serialization import message_from_json, message_to_json, token_ids_from_bytes, token_ids_to_bytes
from agentform.agent.sqlite_store import SQLiteStore
from agentform.errors import ConversationChanged, InvalidInput, StoreCorrupt, StoreError, StoreVersion
from agentform.messages import Alternative, Evidence, Message, ToolCall, ToolResult, Usage
from agentform.testing import Say, ScriptedEngine, scripted_call
from tests.support.waiting import PATIENCE_S, process

TEXT = st.text(st.characters(), max_size=12)  # lone surrogates among them
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
NUMBER = st.none() | st.floats(0, 1)
COUNT = st.none() | st.integers(0, 10**9)
EVIDENCE = st.builds(
    Evidence,
    pointer=TEXT,
    value=JSON,
    how=st.sampled_from(["fixed", "scored", "generated", "joint", "repaired"]),
    probability=NUMBER,
    raw_probability=NUMBER,
    legal_mass=NUMBER,
    gap=NUMBER,
    alternatives=st.lists(st.builds(Alternative, value=JSON, probability=st.floats(0, 1)), max_size=2).map(tuple),
)
USAGE = st.builds(
    Usage, prompt_tokens=st.integers(0, 10**9), cached_tokens=COUNT, computed_tokens=COUNT, miss=st.none() | TEXT
)
CALL = st.builds(
    ToolCall,
    id=TEXT,
    name=TEXT,
    arguments=st.dictionaries(TEXT, JSON, max_size=3),
    evidence=st.lists(EVIDENCE, max_size=2).map(tuple),
    decision=st.none() | EVIDENCE,
    usage=USAGE,
)
MESSAGE = st.builds(
    Message,
    role=st.sampled_from(["system", "user", "assistant", "tool"]),
    content=TEXT,
    calls=st.lists(CALL, max_size=2).map(tuple),
    result=st.none() | st.builds(ToolResult, call_id=TEXT, name=TEXT, content=TEXT, is_error=st.booleans()),
)
CONVERSATION = st.builds(
    Conversation,
    id=st.text(min_size=1, max_size=8),
    messages=st.lists(MESSAGE, max_size=4),
    token_ids=st.lists(st.integers(0, 2**32 - 1), max_size=20).map(tuple),
    model=st.text(max_size=8),
)


@given(MESSAGE)
def test_a_message_comes_back_as_it_was(message):
    assert message_from_json(message_to_json(message)) == message


@given(st.lists(st.integers(0, 2**32 - 1)).map(tuple))
def test_token_ids_come_back_as_they_were(ids):
    assert token_ids_from_bytes(token_ids_to_bytes(ids)) == ids


@given(CONVERSATION, st.lists(MESSAGE, max_size=3), st.integers(0, 4))
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_conversation_comes_back_as_it_was_however_it_was_changed(tmp_path_factory, talk, more, cut):
    store = SQLiteStore(tmp_path_factory.mktemp("store") / "talks.sqlite")

    async def play() -> None:
        await store.save(talk)
        assert await store.load(talk.id) == talk
        talk.messages[cut:] = more
        talk.token_ids = talk.token_ids[:cut]
        await store.save(talk)
        assert await store.load(talk.id) == talk
        assert talk.version == 2

    anyio.run(play)


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "talks.sqlite"


def talk_of(name: str, *texts: str) -> Conversation:
    return Conversation(id=name, messages=[Message(role="user", content=text) for text in texts])


@pytest.mark.anyio
async def test_what_is_kept_can_be_listed_and_forgotten(path):
    store = SQLiteStore(path)
    assert await store.load("a") is None
    for name, texts in (("a", ["Hi"]), ("b", ["Hi", "there"])):
        await store.save(talk_of(name, *texts))
    assert [(info.id, info.num_messages) for info in await store.conversations()] == [("b", 2), ("a", 1)]
    assert await store.delete("b")
    assert not await store.delete("b")
    assert await store.load("b") is None
    assert [info.id for info in await SQLiteStore(path).conversations()] == ["a"]


@pytest.mark.anyio
async def test_two_who_go_on_from_the_same_point_are_told(path):
    store = SQLiteStore(path)
    await store.save(talk_of("a", "Hi"))
    mine, theirs = await store.load("a"), await SQLiteStore(path).load("a")
    theirs.messages.append(Message(role="assistant", content="Theirs."))
    await store.save(theirs)
    mine.messages.append(Message(role="assistant", content="Mine."))
    with pytest.raises(ConversationChanged, match="'a' was saved 2 times, but 1 times when it was loaded"):
        await store.save(mine)
    assert (await store.load("a")).messages == theirs.messages


def write_database(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        for statement in statements:
            connection.execute(statement)


@pytest.mark.anyio
@pytest.mark.parametrize("statement", ["CREATE TABLE notes (text)", "PRAGMA application_id = 7"])
async def test_a_database_of_something_else_is_refused_and_left_as_it_was(path, statement):
    write_database(path, statement)
    before = path.read_bytes()
    with pytest.raises(StoreCorrupt, match="a database of something else"):
        await SQLiteStore(path).save(talk_of("a", "Hi"))
    assert path.read_bytes() == before


@pytest.mark.anyio
async def test_a_file_that_is_no_database_is_refused_and_left_as_it_was(path):
    path.write_bytes(b"Dear diary, " * 100)
    with pytest.raises(StoreCorrupt, match="is no conversation store"):
        await SQLiteStore(path).load("a")
    assert path.read_bytes() == b"Dear diary, " * 100


@pytest.mark.anyio
async def test_another_layout_is_refused(path):
    await SQLiteStore(path).save(talk_of("a", "Hi"))
    write_database(path, "PRAGMA user_version = 9")
    with pytest.raises(StoreVersion, match="has layout 9"):
        await SQLiteStore(path).load("a")


@pytest.mark.anyio
@pytest.mark.parametrize(
    "damage",
    [
        "DELETE FROM messages WHERE position = 0",
        "UPDATE messages SET body = '{}' WHERE position = 1",
        "UPDATE messages SET body = 'x' WHERE position = 1",
        "UPDATE conversations SET token_ids = x'010203'",
    ],
)
async def test_a_damaged_conversation_is_refused_and_the_others_can_be_read(path, damage):
    store = SQLiteStore(path)
    await store.save(talk_of("a", "Hi", "there"))
    write_database(path, damage)
    await store.save(talk_of("b", "Hi"))
    with pytest.raises(StoreCorrupt):
        await store.load("a")
    assert (await store.load("b")).messages == talk_of("b", "Hi").messages


@pytest.mark.anyio
async def test_a_file_that_is_cut_is_refused(path):
    await SQLiteStore(path).save(talk_of("a", *(f"message {n} " * 50 for n in range(100))))
    path.write_bytes(path.read_bytes()[:9000])
    with pytest.raises(StoreCorrupt):
        await SQLiteStore(path).load("a")


@pytest.mark.anyio
async def test_a_file_that_stays_locked_or_cannot_be_opened_is_a_typed_error(path, tmp_path):
    await SQLiteStore(path).save(talk_of("a", "Hi"))
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match="locked"):
            await SQLiteStore(path, busy_s=0.01).save(talk_of("b", "Hi"))
    with pytest.raises(StoreError, match="unable to open"):
        await SQLiteStore(tmp_path / "nowhere" / "talks.sqlite").load("a")


@pytest.mark.anyio
async def test_what_cannot_be_kept_is_said(path):
    store = SQLiteStore(path)
    bad = Conversation(messages=list(scripted_call("weather", {"at": float("nan")}, "sunny")))
    with pytest.raises(InvalidInput, match="cannot be stored"):
        await store.save(bad)
    with pytest.raises(InvalidInput, match="must be Unicode"):
        await store.load("\ud800")


WRITER = """
import sys, anyio
from agentform.agent.conversation import Conversation
from agentform.agent.sqlite_store import SQLiteStore
from agentform.messages import Message

async def main():
    store = SQLiteStore(sys.argv[1])
    talk = Conversation(id=sys.argv[2])
    for n in range(10):
        talk.messages.append(Message(role="user", content=str(n)))
        await store.save(talk)

anyio.run(main)
"""


def test_several_processes_share_a_file(path):
    with ExitStack() as stack:
        commands = [[sys.executable, "-c", WRITER, path, f"talk {n}"] for n in range(3)]
        writers = [stack.enter_context(process(command)) for command in commands]
        assert [writer.wait(PATIENCE_S) for writer in writers] == [0] * 3
    infos = anyio.run(SQLiteStore(path).conversations)
    assert sorted((info.id, info.num_messages) for info in infos) == [(f"talk {n}", 10) for n in range(3)]


@pytest.mark.anyio
async def test_the_file_is_nobody_elses_to_read(tmp_path):
    store = SQLiteStore(tmp_path / "c.sqlite")
    await store.save(Conversation(id="a"))
    assert {place.name: place.stat().st_mode & 0o777 for place in tmp_path.iterdir()}["c.sqlite"] == 0o600


@pytest.mark.anyio
async def test_a_save_that_is_cancelled_is_not_waited_for_and_does_not_happen_later(tmp_path):
    store, talk = SQLiteStore(tmp_path / "c.sqlite"), Conversation(id="a")
    await store.save(talk)
    talk.add("Hi.")
    with closing(sqlite3.connect(store.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with anyio.move_on_after(0.05) as scope:
            await store.save(talk)
        assert scope.cancelled_caught
        other.execute("ROLLBACK")
    assert (await store.load("a")).version == talk.version == 1
    await store.save(talk)
    assert [message.content for message in (await store.load("a")).messages] == ["Hi."]


class Stuck:
    """Saves nothing, for ever."""

    async def load(self, conversation_id):
        return None

    async def save(self, conversation):
        await anyio.sleep_forever()


@pytest.mark.anyio
async def test_no_store_holds_up_a_cancelled_run_for_good(monkeypatch):
    monkeypatch.setattr(run_module, "_SAVE_S", 0.05)
    agent = Agent(ScriptedEngine([Say("Hi.")]), store=Stuck())
    with anyio.fail_after(PATIENCE_S), pytest.raises(StoreError, match="could not be saved within"):
        await agent.run("Hi", conversation="a")
