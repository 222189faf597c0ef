from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from agentform.runtime.cache.eviction import evict
from agentform.runtime.cache.radix_tree import RadixTree
from agentform.runtime.cache.ranges import count, cut, join, positions

SEQUENCE = st.lists(st.integers(0, 2), min_size=1, max_size=8).map(tuple)


def evicted(tree, num):
    return [(cut.path, cut.runs) for cut in evict(tree, num, recurrent=False)]


class TreeAgainstDictionary(RuleBasedStateMachine):
    """The oracle maps every known prefix to the position of its last token."""

    locks = Bundle("locks")

    def __init__(self):
        super().__init__()
        self.tree = RadixTree()
        self.known: dict[tuple[int, ...], int] = {}
        self.locked: list[tuple[int, ...]] = []
        self.next_position = 0

    def longest(self, ids):
        return next((n for n in range(len(ids), 0, -1) if ids[:n] in self.known), 0)

    @rule(ids=SEQUENCE)
    def match(self, ids):
        match = self.tree.match_prefix(ids)
        assert match.num_tokens == self.longest(ids)
        assert list(positions(match.runs)) == [self.known[ids[: i + 1]] for i in range(match.num_tokens)]

    @rule(ids=SEQUENCE, share=st.booleans())
    def insert(self, ids, share):
        """`share`: the caller uses the tree's positions for the known part, as a lease does."""
        known = self.longest(ids)
        shared = self.tree.match_prefix(ids).runs if share else ()
        num_new = len(ids) - count(shared)
        start = self.next_position = self.next_position + 1  # a gap, so that runs do not touch by accident
        self.next_position += num_new
        fresh = ((start, start + num_new),) if num_new else ()
        match, spare = self.tree.insert(ids, join(shared, fresh))
        kept = known - count(shared)
        assert spare == cut(fresh, kept)[0]
        for index, position in enumerate(positions(cut(fresh, kept)[1])):
            self.known[ids[: known + index + 1]] = position
        assert list(positions(match.runs)) == [self.known[ids[: i + 1]] for i in range(len(ids))]

    @rule(target=locks, ids=SEQUENCE)
    def lock(self, ids):
        match = self.tree.match_prefix(ids)
        self.tree.lock(match.node)
        self.locked.append(ids[: match.num_tokens])
        return match.node, ids[: match.num_tokens]

    @rule(lock=consumes(locks))
    def unlock(self, lock):
        node, ids = lock
        self.tree.unlock(node)
        self.locked.remove(ids)

    @rule(num=st.integers(1, 6))
    def evict(self, num):
        protected = {ids[:n] for ids in self.locked for n in range(1, len(ids) + 1)}
        evictable = len(self.known) - len(protected)
        given = evicted(self.tree, num)
        assert sum(count(runs) for _, runs in given) == min(num, evictable)
        for path, runs in given:
            for index, position in enumerate(positions(runs)):
                prefix = path[: len(path) - count(runs) + index + 1]
                assert prefix not in protected
                assert self.known.pop(prefix) == position

    @invariant()
    def consistent(self):
        self.tree.integrity()
        assert self.tree.num_tokens == len(self.known)
        protected = {ids[:n] for ids in self.locked for n in range(1, len(ids) + 1)}
        assert self.tree.num_locked == len(protected)


TestTreeAgainstDictionary = TreeAgainstDictionary.TestCase
TestTreeAgainstDictionary.settings = settings(max_examples=150, stateful_step_count=25, deadline=None)


def test_least_recently_used_leaf_goes_first():
    tree = RadixTree()
    tree.insert((1, 2), ((0, 2),))
    tree.insert((1, 3), ((0, 1), (5, 6)))
    tree.match_prefix((1, 2))
    assert evicted(tree, 1) == [((1, 3), ((5, 6),))]


def test_a_use_does_not_refresh_its_ancestors():
    tree = RadixTree()
    tree.insert((1, 2), ((0, 2),))
    tree.insert((7,), ((10, 11),))
    tree.insert((1, 2, 3), ((0, 3),))
    tree.match_prefix((1, 2, 3))
    tree.match_prefix((7,))
    # [3] is older than [7]; then [1 2] is a leaf, last used before [7] was.
    assert [path for path, _ in evicted(tree, 3)] == [(1, 2, 3), (1, 2)]


def test_a_long_leaf_loses_only_its_tail():
    tree = RadixTree()
    tree.insert(tuple(range(10)), ((0, 10),))
    assert evicted(tree, 3) == [(tuple(range(10)), ((7, 10),))]
    assert tree.match_prefix(tuple(range(10))).num_tokens == 7


def test_unlocking_too_often_is_caught():
    tree = RadixTree()
    node = tree.insert((1,), ((0, 1),))[0].node
    with pytest.raises(AssertionError, match="unlocked"):
        tree.unlock(node)


@given(st.lists(st.integers(0, 1), max_size=40), st.lists(st.integers(0, 1), max_size=40))
def test_match_is_the_common_prefix(a, b):
    tree = RadixTree()
    if a:
        tree.insert(tuple(a), ((0, len(a)),))
    common = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    assert tree.match_prefix(b).num_tokens == common
