from __future__ import annotations

from agentform.messages import Usage
from agentform.runtime.http import usage_totals as counts
from agentform.runtime.http.usage_totals import UsageTotals


def test_usage_adds_up_in_all_and_by_conversation():
    made = UsageTotals(capacity_tokens=100)
    made.add(Usage(prompt_tokens=10, cached_tokens=4, computed_tokens=6), "ada")
    made.add(Usage(prompt_tokens=20, cached_tokens=15, computed_tokens=9), None)
    found = made.statistics()
    assert (found.requests, found.lookup_tokens, found.hit_tokens, found.computed_tokens) == (2, 30, 19, 15)
    assert (found.capacity_tokens, found.misses) == (100, {})
    assert (found.conversations["ada"].requests, found.conversations["ada"].hit_tokens) == (1, 4)


def test_what_is_unknown_does_not_spoil_the_hit_rate():
    made = UsageTotals()
    made.add(Usage(prompt_tokens=10, cached_tokens=5), None)
    made.add(Usage(prompt_tokens=1000, cached_tokens=None, computed_tokens=None), None)
    assert (made.statistics().requests, made.statistics().hit_rate) == (2, 0.5)


def test_conversations_that_were_used_longest_ago_are_forgotten(monkeypatch):
    monkeypatch.setattr(counts, "_CONVERSATIONS", 2)
    made = UsageTotals()
    for name in ("a", "b", "a", "c"):
        made.add(Usage(prompt_tokens=1), name)
    assert set(made.statistics().conversations) == {"a", "c"}


def test_who_came_back_and_why_a_prompt_was_missed_is_told_as_far_as_it_is_known():
    made = UsageTotals()
    first, second = tuple(range(500)), tuple(range(1000, 1500))
    made.add(Usage(prompt_tokens=500, cached_tokens=0), "a", first)
    made.add(Usage(prompt_tokens=500, cached_tokens=0), "b", second)
    made.add(Usage(prompt_tokens=700, cached_tokens=480), "a", (*first, *range(200)))
    made.add(Usage(prompt_tokens=700, cached_tokens=64), "b", (*second, *range(200)))
    made.add(Usage(prompt_tokens=900, cached_tokens=0), "a", tuple(range(5000, 5900)))
    made.add(Usage(prompt_tokens=900, cached_tokens=880), "b", (*second, *range(400)))
    made.add(Usage(prompt_tokens=900, cached_tokens=0), "b")
    found = made.statistics()
    assert found.misses == {"cold": 2, "new": 1, "evicted": 1, "rewritten": 1, "lost": 1}
    assert found.conversations["a"].misses == {"cold": 1, "new": 1, "rewritten": 1}
    assert found.working_set.first_uses == 2
    assert found.working_set.distances == {1: 4}
