from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentform.runtime.cache.position_pool import PagePool
from agentform.runtime.cache.ranges import count, cut, end_of, join, positions


def test_first_allocation_is_one_run_from_the_start():
    assert PagePool(100).alloc(7) == ((0, 7),)


def test_extends_right_behind_what_it_continues():
    pool = PagePool(100)
    first = pool.alloc(7)
    other = pool.alloc(5)
    assert pool.alloc(3, after=end_of(first)) == ((7, 10),)
    assert pool.alloc(3, after=end_of(other)) == ((other[-1][1], other[-1][1] + 3),)


def test_new_sequence_leaves_room_behind_the_one_before():
    pool = PagePool(100)
    pool.alloc(10)
    ((start, _),) = pool.alloc(10)
    assert start == 50


def test_splits_only_when_no_gap_is_wide_enough():
    pool = PagePool(10)
    runs = pool.alloc(10)
    pool.free(((0, 3), (5, 9)))
    assert pool.alloc(4) == ((5, 9),)
    pool.free(((5, 9),))
    assert sorted(positions(pool.alloc(6))) == [0, 1, 5, 6, 7, 8]
    assert runs == ((0, 10),)


def test_refuses_more_than_is_free_and_keeps_nothing():
    pool = PagePool(10)
    pool.alloc(4)
    assert pool.alloc(7) is None
    assert pool.num_free == 6


@pytest.mark.parametrize("runs", [((2, 4),), ((0, 3),), ((3, 9),), ((0, 20),)])
def test_freeing_what_is_free_is_caught(runs):
    pool = PagePool(10)
    pool.alloc(2)
    with pytest.raises(AssertionError, match="freed"):
        pool.free(runs)


@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 9)), max_size=60))
def test_pool_against_a_set(steps):
    """Each step allocates, or frees part of what is held; the free set is always the complement of what is held."""
    pool, held = PagePool(40), []
    for size, pick in steps:
        if pick < 6 or not held:
            runs = pool.alloc(size, after=end_of(held[-1]) if held and pick % 2 else None)
            assert (runs is None) == (size > 40 - sum(map(count, held)))
            if runs:
                assert count(runs) == size
                held.append(runs)
        else:
            runs = held.pop(pick % len(held))
            given_back, kept = cut(runs, min(size, count(runs)))
            pool.free(given_back)
            held.extend([kept] if kept else [])
        pool.integrity()
        owned = [p for runs in held for p in positions(runs)]
        assert len(owned) == len(set(owned))
        assert set(owned) | set(positions(pool.free_runs())) == set(range(40))
        assert pool.num_free == 40 - len(owned)


def test_join_merges_runs_that_touch():
    assert join(((0, 3), (5, 6)), ((6, 9),), ()) == ((0, 3), (5, 9))


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 5)), max_size=6), st.data())
def test_cut_keeps_order_and_number(pieces, data):
    runs = tuple((start * 10, start * 10 + size) for start, size in pieces)
    at = data.draw(st.integers(0, count(runs)))
    head, tail = cut(runs, at)
    assert count(head) == at
    assert [*positions(head), *positions(tail)] == list(positions(runs))
