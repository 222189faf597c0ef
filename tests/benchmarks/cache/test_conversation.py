"""What the benchmarks of long and of concurrent conversations count, on an engine without weights."""

from __future__ import annotations

import itertools

import pytest

from agentform.testing import Call, Say, ScriptedEngine
from benchmarks.cache import conversation, throughput

pytestmark = pytest.mark.anyio


async def test_a_row_per_turn_says_what_was_new_and_what_was_computed():
    engine = ScriptedEngine([Call("light", {"room": "hall", "state": "on"}, text="Yes."), Say("Done."), Say("No.")])
    rows = await conversation._hold(engine, 2)
    assert [row["requests"] for row in rows] == [len(engine.requests) - rows[1]["requests"], rows[1]["requests"]]
    assert rows[0]["new_tokens"] > rows[1]["new_tokens"] > 0
    # That engine keeps nothing: every request computes its whole prompt.
    assert all(row["computed_tokens"] >= row["prompt_tokens"] for row in rows)
    assert all(row["first_token_s"] >= 0 for row in rows)


def test_the_summary_compares_the_last_turns_with_the_first():
    rows = [
        {"new_tokens": 10, "computed_tokens": 10 + turn, "first_token_s": 2.0 if turn > 20 else 1.0}
        for turn in range(41)
    ]
    summary = conversation._summary([{**rows[0], "first_token_s": 99.0}, *rows[1:]])
    assert summary["first_token_last_over_first"] == 2.0
    assert summary["new_tokens"] == 10
    assert summary["computed_tokens"] == 30.5


async def test_tokens_of_all_conversations_count():
    engine = ScriptedEngine([Say("four words of text.")] * 6)
    written = []
    for number in range(2):
        await throughput._converse(engine, number, written)
    assert len(written) == 6
    assert set(written) == {len("four words of text.") + 1}
    assert await throughput._tokens_per_s(ScriptedEngine([Say("x")] * 6), 2, itertools.count()) > 0
