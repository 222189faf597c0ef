from __future__ import annotations

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentform.errors import InvalidInput
from agentform.runtime.cache.statistics import CacheStatistics, ConversationStatistics
from agentform.telemetry import HitRateHistory

REASONS = ("cold", "evicted", "new")


@st.composite
def steps(draw):
    """What happens between looks: by conversation, prompt tokens, those of them reused, and a reason."""
    one = st.tuples(st.sampled_from("abc"), st.integers(1, 50), st.floats(0, 1), st.sampled_from(REASONS))
    return draw(st.lists(st.lists(one, max_size=4), min_size=1, max_size=8))


def statistics(done):
    """The counters after all requests in `done`."""
    conversations = {}
    for name in {request[0] for request in done}:
        own = [request for request in done if request[0] == name]
        conversations[name] = ConversationStatistics(**counts(own))
    return CacheStatistics(**counts(done), conversations=conversations)


def counts(requests):
    return {
        "requests": len(requests),
        "lookup_tokens": sum(tokens for _, tokens, _, _ in requests),
        "hit_tokens": sum(int(tokens * share) for _, tokens, share, _ in requests),
        "misses": {reason: num for reason in REASONS if (num := sum(r[3] == reason for r in requests))},
    }


@given(steps())
def test_samples_are_what_happened_between_two_looks(steps):
    history = HitRateHistory()
    done = []
    for at, requests in enumerate(steps):
        done += requests
        sample = history.add(statistics(done), at_s=at)
        expected = counts(requests)
        assert (sample.total.requests, sample.total.lookup_tokens) == (expected["requests"], expected["lookup_tokens"])
        assert (sample.total.hit_tokens, dict(sample.total.misses)) == (expected["hit_tokens"], expected["misses"])
        assert set(sample.conversations) == {request[0] for request in requests}
        assert sum(share.lookup_tokens for share in sample.conversations.values()) == expected["lookup_tokens"]
    assert history.total.hit_rate == statistics(done).hit_rate


@given(steps())
def test_a_file_brings_the_samples_back(steps):
    import tempfile
    from pathlib import Path

    history = HitRateHistory()
    for at, requests in enumerate(steps):
        history.add(statistics(requests), at_s=at)
    with tempfile.TemporaryDirectory() as folder:
        history.save(Path(folder) / "h.jsonl")
        assert HitRateHistory.load(Path(folder) / "h.jsonl").samples == history.samples


def test_an_engine_begun_anew_counts_from_nothing():
    history = HitRateHistory()
    history.add(CacheStatistics(requests=9, lookup_tokens=900, hit_tokens=800), at_s=0)
    after = history.add(CacheStatistics(requests=1, lookup_tokens=10, hit_tokens=5), at_s=1)
    assert (after.total.requests, after.total.hit_rate) == (1, 0.5)


def test_the_oldest_samples_make_room():
    history = HitRateHistory(capacity=3)
    for at in range(5):
        history.add(CacheStatistics(requests=at, lookup_tokens=at), at_s=at)
    assert [sample.at_s for sample in history.samples] == [2, 3, 4]
    with pytest.raises(InvalidInput, match="capacity of 0"):
        HitRateHistory(capacity=0)


@pytest.mark.parametrize("text", ["{}\n", "[1]\n", "nonsense\n", '{"at_s": 1, "total": {"x": 1}, "conversations": {}}'])
def test_what_is_no_history_is_refused_with_its_line(text, tmp_path):
    file = tmp_path / "h.jsonl"
    file.write_text(text)
    with pytest.raises(InvalidInput, match=r"h\.jsonl, line 1"):
        HitRateHistory.load(file)


@pytest.mark.anyio
async def test_watching_samples_until_cancelled():
    history = HitRateHistory()
    looks = []

    def look():
        looks.append(1)
        if len(looks) == 3:
            scope.cancel()
        return CacheStatistics(requests=len(looks), lookup_tokens=len(looks))

    with anyio.CancelScope() as scope:
        await history.watch(look, every_s=0)
    assert [sample.total.requests for sample in history.samples] == [1, 1, 1]
