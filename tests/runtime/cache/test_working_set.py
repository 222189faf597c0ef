"""Reuse distances against a cache that is simulated at every size."""

from __future__ import annotations

from collections import OrderedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentform.runtime.cache.working_set import ReuseDistances, WorkingSet


def hits_of_cache(stream, slots):
    """Hits of a cache of the `slots` used last; going on at once is no use of its own."""
    held, hits, before = OrderedDict(), 0, None
    for key in stream:
        if key == before:
            continue
        before = key
        hits += key in held
        held[key] = None
        held.move_to_end(key)
        if len(held) > slots:
            held.popitem(last=False)
    return hits


@given(st.lists(st.integers(0, 9), max_size=80))
def test_one_pass_gives_the_hits_of_every_size(stream):
    reuse = ReuseDistances()
    for key in stream:
        reuse.use(key)
    seen = reuse.working_set()
    for slots in range(12):
        hits = hits_of_cache(stream, slots) if slots else 0
        assert sum(num for distance, num in seen.distances.items() if distance < slots) == hits
        if seen.uses:
            assert seen.hit_rate(slots) == pytest.approx(hits / seen.uses)
    assert seen.first_uses == len(set(stream))
    if seen.distances:
        assert seen.curve()[-1] == (seen.slots_needed, seen.hit_rate(seen.slots_needed))


@given(st.lists(st.integers(0, 9), max_size=200), st.integers(1, 6))
def test_memory_is_bounded_and_short_distances_stay_right(stream, most_keys):
    """Places are numbered anew whenever the tree is full, which at this size is all the time."""
    bounded, whole = ReuseDistances(most_keys=most_keys), ReuseDistances()
    for key in stream:
        got, wanted = bounded.use(key), whole.use(key)
        assert got == (wanted if wanted is not None and wanted < most_keys else None)


def test_many_conversations_are_counted_as_few_are():
    reuse = ReuseDistances()
    for _ in range(2):
        for key in range(3000):
            reuse.use(key)
    assert reuse.working_set() == WorkingSet(distances={2999: 3000}, first_uses=3000)


def test_nothing_seen_has_no_rate():
    assert WorkingSet().hit_rate(5) is None
    assert WorkingSet().slots_needed == 0
    assert WorkingSet().curve() == []
