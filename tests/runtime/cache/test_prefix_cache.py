from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from agentform.runtime.cache.prefix_cache import PrefixCache
from agentform.runtime.cache.ranges import count, positions


def computed(cache, ids, *, usable=None):
    """Run a request that computes all of `ids`; returns its lease, still open."""
    lease = cache.open(ids, usable=len(ids) if usable is None else usable, extra=0)
    assert lease is not None
    cache.grow(lease, len(ids) - lease.start)
    cache.commit(lease, ids)
    return lease


def test_second_request_finds_what_the_first_computed_before_it_ended():
    cache = PrefixCache(100)
    first = computed(cache, (1, 2, 3))
    second = cache.open((1, 2, 3, 4), usable=3, extra=5)
    assert second is not None
    assert second.start == 3
    assert second.shared == first.shared


def test_double_computed_positions_are_freed():
    cache = PrefixCache(100)
    leases = [cache.open((1, 2, 3), usable=2, extra=0) for _ in range(2)]
    for lease in leases:
        cache.grow(lease, 3)
    for lease in leases:
        cache.commit(lease, (1, 2, 3))
    assert leases[0].runs == leases[1].runs
    assert cache.statistics().live_tokens == 0
    assert cache.statistics().resident_tokens == 3
    for lease in leases:
        cache.close(lease)
    cache.integrity()


def test_a_conversation_stays_in_one_run():
    cache = PrefixCache(1000)
    ids = tuple(range(10))
    for turn in range(4):
        other = computed(cache, (500 + turn, 1, 2))
        cache.close(other)
        lease = computed(cache, ids)
        assert len(lease.runs) == 1
        cache.close(lease)
        ids += tuple(range(len(ids), len(ids) + 7))


def test_misses_have_reasons():
    cache = PrefixCache(20)
    cold = computed(cache, (1, 2, 3, 4))
    assert cold.miss == "cold"
    again = computed(cache, (1, 2, 3, 4), usable=3)
    assert again.miss is None
    grown = computed(cache, (1, 2, 3, 4, 5, 6))
    assert grown.miss == "new after token 4"
    other = computed(cache, (1, 2, 9, 9))
    assert other.miss == "diverged at token 2"
    for lease in (cold, again, grown, other):
        cache.close(lease)
    cache.close(computed(cache, tuple(range(100, 118))))
    assert cache.statistics().evicted_tokens >= 6
    late = computed(cache, (1, 2, 3, 4))
    assert late.miss == "evicted"
    assert cache.statistics().misses == {"cold": 2, "new": 1, "diverged": 1, "evicted": 1}


def test_a_lease_that_does_not_fit_beside_others_is_refused_and_holds_nothing():
    cache = PrefixCache(10)
    first = cache.open((1, 2, 3), usable=2, extra=4)
    assert cache.open((9, 8), usable=1, extra=2) is None
    cache.close(first)
    assert cache.open((9, 8), usable=1, extra=2) is not None


def test_statistics_count_tokens():
    cache = PrefixCache(50, budget_bytes=7)
    cache.close(computed(cache, (1, 2, 3)))
    cache.close(computed(cache, (1, 2, 3, 4), usable=3))
    statistics = cache.statistics()
    assert (statistics.requests, statistics.lookup_tokens, statistics.hit_tokens) == (2, 7, 3)
    assert statistics.hit_rate == pytest.approx(3 / 7)
    assert (statistics.resident_tokens, statistics.capacity_tokens, statistics.budget_bytes) == (4, 50, 7)


class ManyLeases(RuleBasedStateMachine):
    """Requests open, grow, borrow, commit and close in any order; nothing is ever lost or lent twice."""

    def __init__(self):
        super().__init__()
        self.cache = PrefixCache(24)
        self.leases = []

    @rule(ids=st.lists(st.integers(0, 1), min_size=1, max_size=6).map(tuple), extra=st.integers(0, 5))
    def open(self, ids, extra):
        lease = self.cache.open(ids, usable=len(ids) - 1, extra=extra)
        if lease is not None:
            self.leases.append((lease, list(ids)))

    @precondition(lambda self: self.leases)
    @rule(pick=st.integers(0, 9), num=st.integers(1, 3), token=st.integers(0, 1))
    def grow(self, pick, num, token):
        lease, ids = self.leases[pick % len(self.leases)]
        num = min(num, lease.reserved)
        self.cache.grow(lease, num)
        while len(ids) < count(lease.runs):
            ids.append(token)

    @precondition(lambda self: self.leases)
    @rule(pick=st.integers(0, 9))
    def borrow_and_return(self, pick):
        lease, _ = self.leases[pick % len(self.leases)]
        before = lease.reserved
        self.cache.give_back(lease, self.cache.borrow(lease, lease.reserved))
        assert lease.reserved == before

    @precondition(lambda self: self.leases)
    @rule(pick=st.integers(0, 9))
    def commit(self, pick):
        lease, ids = self.leases[pick % len(self.leases)]
        self.cache.commit(lease, ids[: count(lease.runs)])

    @precondition(lambda self: self.leases)
    @rule(pick=st.integers(0, 9))
    def close(self, pick):
        lease, _ = self.leases.pop(pick % len(self.leases))
        self.cache.close(lease)
        self.cache.close(lease)

    @invariant()
    def every_position_has_one_owner(self):
        self.cache.integrity()
        own = [p for lease, _ in self.leases for p in positions(lease.own)]
        assert len(own) == len(set(own)) == self.cache.statistics().live_tokens


TestManyLeases = ManyLeases.TestCase
TestManyLeases.settings = settings(max_examples=150, stateful_step_count=30, deadline=None)
