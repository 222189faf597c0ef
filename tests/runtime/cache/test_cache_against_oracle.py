"""The whole cache with snapshots against a dictionary that says what each position holds."""

from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from agentform.runtime.cache.eviction import spilled
from agentform.runtime.cache.prefix_cache import PrefixCache
from agentform.runtime.cache.ranges import count, positions

CAPACITY = 40
SNAPSHOT = 3


class Requests:
    """Requests over one cache; whatever a hit hands out must hold what was computed for just those tokens."""

    def __init__(self, *, capacity=CAPACITY, snapshot=SNAPSHOT, slots=3):
        ticks = itertools.count()
        self.cache = PrefixCache(
            capacity, snapshot_positions=snapshot, num_slots=slots, clock=lambda: float(next(ticks))
        )
        self.content: dict[int, tuple] = {}
        self.running: list[tuple] = []  # lease, its tokens, how many of them are computed
        self.num_spilled = 0
        self.cache.spill_to(self.spill)

    def spill(self, given):
        """What a slower tier would read at this moment."""
        for each in spilled(given, recurrent=self.cache.is_recurrent):
            self.num_spilled += 1
            assert count(each.runs) == len(each.ids)
            for index, position in enumerate(positions(each.runs)):
                assert self.content[position] == ("kv", each.ids[: index + 1])
            assert bool(each.snapshot) == self.cache.is_recurrent
            for position in positions(each.snapshot):
                assert self.content[position] == ("snapshot", each.ids)

    def open(self, ids, extra, conversation=None):
        lease = self.cache.open(ids, usable=len(ids) - 1, extra=extra, conversation=conversation)
        if lease is None:
            return
        for index, position in enumerate(positions(lease.shared)):
            assert self.content[position] == ("kv", ids[: index + 1])
        if lease.start and self.cache.is_recurrent:
            assert lease.source.snapshot is not None
            for position in positions(lease.source.snapshot.runs):
                assert self.content[position] == ("snapshot", ids[: lease.start])
        self.running.append((lease, list(ids)))

    def grow(self, index, num, token):
        lease, ids = self.running[index % len(self.running)]
        before = count(lease.runs)
        self.cache.grow(lease, min(num, lease.reserved))
        for at, position in enumerate(positions(lease.runs)):
            if at >= before:
                if at >= len(ids):
                    ids.append(token)
                self.content[position] = ("kv", tuple(ids[: at + 1]))

    def snapshot(self, index, attach):
        lease, ids = self.running[index % len(self.running)]
        num = count(lease.runs)
        runs = self.cache.snapshot_room(lease, num) if num else None
        if runs is None:
            return
        for position in positions(runs):
            self.content[position] = ("snapshot", tuple(ids[:num]))
        self.commit(index)
        if attach:
            self.cache.attach(lease, ids[:num])

    def commit(self, index):
        lease, ids = self.running[index % len(self.running)]
        self.cache.commit(lease, ids[: count(lease.runs)])

    def borrow(self, index):
        lease, _ = self.running[index % len(self.running)]
        self.cache.give_back(lease, self.cache.borrow(lease, lease.reserved))

    def loaded(self, index):
        self.cache.loaded(self.running[index % len(self.running)][0])

    def close(self, index, ends_turn):
        lease, _ = self.running.pop(index % len(self.running))
        self.cache.close(lease, ends_turn=ends_turn)
        self.cache.close(lease)


INDEX = st.integers(0, 9)


class CacheAgainstDictionary(RuleBasedStateMachine):
    """See `Requests`."""

    def __init__(self):
        super().__init__()
        self.requests = Requests()

    def some_run(self):
        return bool(self.requests.running)

    @rule(
        ids=st.lists(st.integers(0, 1), min_size=1, max_size=7).map(tuple),
        extra=st.integers(0, 5),
        conversation=st.sampled_from([None, "a", "b"]),
    )
    def open(self, ids, extra, conversation):
        self.requests.open(ids, extra, conversation)

    @precondition(some_run)
    @rule(index=INDEX, num=st.integers(1, 4), token=st.integers(0, 1))
    def grow(self, index, num, token):
        self.requests.grow(index, num, token)

    @precondition(some_run)
    @rule(index=INDEX, attach=st.booleans())
    def snapshot(self, index, attach):
        self.requests.snapshot(index, attach)

    @precondition(some_run)
    @rule(index=INDEX)
    def borrow_and_return(self, index):
        self.requests.borrow(index)

    @precondition(some_run)
    @rule(index=INDEX)
    def commit(self, index):
        self.requests.commit(index)

    @precondition(some_run)
    @rule(index=INDEX)
    def loaded(self, index):
        self.requests.loaded(index)

    @precondition(some_run)
    @rule(index=INDEX, ends_turn=st.booleans())
    def close(self, index, ends_turn):
        self.requests.close(index, ends_turn)

    @invariant()
    def nothing_is_lost_or_owned_twice(self):
        self.requests.cache.integrity()


TestCacheAgainstDictionary = CacheAgainstDictionary.TestCase
TestCacheAgainstDictionary.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)


@pytest.mark.parametrize(("seed", "snapshot"), [(0, 7), (1, 7), (2, 0)])
def test_nothing_leaks_in_ten_thousand_operations(seed, snapshot):
    draw = random.Random(seed)
    requests = Requests(capacity=200, snapshot=snapshot, slots=4)
    hits = 0
    for step in range(10_000):
        index = draw.randrange(10)
        if not requests.running or draw.random() < 0.2:
            requests.open(tuple(draw.choices((0, 1), k=draw.randrange(1, 30))), draw.randrange(6), draw.choice("abc"))
            hits += bool(requests.running and requests.running[-1][0].start)
            continue
        match draw.randrange(6):
            case 0:
                requests.grow(index, draw.randrange(1, 12), draw.randrange(2))
            case 1 if snapshot:
                requests.snapshot(index, draw.random() < 0.9)
            case 1:
                requests.commit(index)
            case 2:
                requests.borrow(index)
            case 3:
                requests.loaded(index)
            case _:
                requests.close(index, draw.random() < 0.5)
        if step % 200 == 0:
            requests.cache.integrity()
    while requests.running:
        requests.close(0, False)
    requests.cache.integrity()
    statistics = requests.cache.statistics()
    assert hits > 50
    assert statistics.live_tokens == 0
    assert requests.num_spilled > 50
    assert (statistics.evicted_snapshots > 50) == bool(snapshot)
