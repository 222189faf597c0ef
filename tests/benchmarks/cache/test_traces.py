from __future__ import annotations

import gzip
import json

import pytest

from agentform.runtime.scheduling.replay import CacheShape, TracedRequest, replay
from benchmarks.cache.traces.foresight import foresight
from benchmarks.cache.traces.policies import POLICIES
from benchmarks.cache.traces.rounds import rounds
from benchmarks.cache.traces.sessions import AGENT_BLOCK, agent_sessions

HYBRID = CacheShape(block_tokens=AGENT_BLOCK, token_bytes=1, snapshot_bytes=3 * AGENT_BLOCK)
ATTENTION = CacheShape(block_tokens=AGENT_BLOCK, token_bytes=1, snapshot_bytes=0)
UNLIMITED = 10**9


def played(asks, policy, shape, *, budget_bytes):
    return replay(asks, shape, budget_bytes=budget_bytes, places=policy.places, give_up=policy.give_up)


def request(t, hashes, out):
    return {"t": t, "in": len(hashes) * AGENT_BLOCK + 5, "out": out, "hash_ids": hashes, "api_time": 1.0}


@pytest.fixture
def trace(tmp_path):
    """Two sessions of three turns; the second turn of each repeats prompt and answer of the first."""
    turns = [
        request(0.0, list(range(20)), 2 * AGENT_BLOCK),
        request(10.0, list(range(25)), AGENT_BLOCK),
        request(20.0, [*range(10), *range(90, 100)], 0),
    ]
    path = tmp_path / "sessions.jsonl.gz"
    with gzip.open(path, "wt") as file:
        for name in ("a", "b"):
            session = {"id": name, "system_tokens": 4 * AGENT_BLOCK, "tool_tokens": 0, "requests": turns}
            file.write(json.dumps(session) + "\n")
    return path


def test_a_session_keeps_its_pauses_and_shares_nothing(trace):
    asks = agent_sessions(trace, window_s=100.0, seed=3)
    by_name = {name: [ask for ask in asks if ask.conversation == name] for name in "ab"}
    for turns in by_name.values():
        assert [ask.start_s - turns[0].start_s for ask in turns] == pytest.approx([0, 10, 20])
        assert [len(ask.written) for ask in turns] == [2, 0, 0]
        assert turns[0].boundaries == (4,)
    assert not set(by_name["a"][0].prompt) & set(by_name["b"][0].prompt)
    assert [ask.start_s for ask in asks] == sorted(ask.start_s for ask in asks)


@pytest.mark.parametrize(("policy", "blocks"), [("ours", 22 + 4), ("grid", 16 + 8), ("end", 22)])
def test_without_a_limit_a_turn_starts_where_its_policy_left_a_snapshot(trace, policy, blocks):
    """Turn two can start behind the answer, or at the grid; turn three shares ten blocks with the others."""
    asks = [ask for ask in agent_sessions(trace, window_s=0.0, seed=0) if ask.conversation == "a"]
    (chosen,) = [each for each in POLICIES if each.name == policy]
    outcome = played(asks, chosen, HYBRID, budget_bytes=UNLIMITED)
    assert outcome.hit_tokens == blocks * AGENT_BLOCK
    assert outcome.prompt_tokens == (20 + 25 + 20) * AGENT_BLOCK + 15


def test_attention_alone_reuses_every_block_that_matches(trace):
    asks = [ask for ask in agent_sessions(trace, window_s=0.0, seed=0) if ask.conversation == "a"]
    outcome = played(asks, POLICIES[0], ATTENTION, budget_bytes=UNLIMITED)
    assert outcome.hit_tokens == (22 + 10) * AGENT_BLOCK


def test_a_request_without_room_counts_as_computed():
    ask = TracedRequest(conversation="a", start_s=0, end_s=1, num_prompt=640, prompt=tuple(range(10)), written=())
    outcome = played([ask, ask], POLICIES[0], HYBRID, budget_bytes=5 * AGENT_BLOCK)
    assert (outcome.num_refused, outcome.hit_tokens, outcome.prompt_tokens) == (2, 0, 1280)


def test_foresight_finds_what_the_optimum_finds_of_conversations_that_come_round():
    """With room for C of N, C - 1 of N - 1 returns (Belady); what was used last alone finds nothing."""
    num, room = 40, 21
    asks = rounds(num, "in sequence", passes=6, blocks=4)
    budget = room * (8 + 3) * AGENT_BLOCK
    ours, _, end = POLICIES
    rates = [played(asks, policy, HYBRID, budget_bytes=budget).hit_rate for policy in (foresight(asks), ours, end)]
    assert rates[0] > 5 / 6 * (room - 1) / (num - 1) - 0.05
    assert rates[0] * 1.02 > rates[1] > 0.8 * rates[0]
    assert rates[2] == 0.0
