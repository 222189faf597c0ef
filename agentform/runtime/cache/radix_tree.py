"""Radix tree over token ids; each node owns the KV positions of its tokens.

::

    root ── [sys tools] [0, 40) ──┬── [turn one ...] [40, 90)
                                  └── [another user] [200, 260)

A lock protects a node and everything above it. Only unlocked leaves are evicted, the least recently used first,
and a use touches only the deepest node used, not its ancestors: those stay because they have children.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from agentform.runtime.cache.runs import Runs, count, cut, join

__all__ = ["Match", "Node", "RadixTree"]


class Node:
    """A run of tokens and where their KV lives; `len(tokens) == count(runs)`."""

    __slots__ = ("children", "last_used", "locks", "parent", "runs", "tokens")

    def __init__(self, tokens: tuple[int, ...], runs: Runs, parent: Node | None) -> None:
        self.tokens = tokens
        self.runs = runs
        self.parent = parent
        self.children: dict[int, Node] = {}
        self.locks = 0
        self.last_used = 0


@dataclass(frozen=True, kw_only=True)
class Match:
    """The longest known prefix."""

    node: Node
    """The node that ends exactly at the end of the prefix; the root for none."""
    num_tokens: int
    runs: Runs
    """Positions of the prefix, still owned by the tree."""


class RadixTree:
    """Knows which token sequences have KV, and where; knows nothing of the pool the positions come from."""

    def __init__(self) -> None:
        self.root = Node((), (), None)
        self._clock = 0
        self._num_tokens = 0
        self._num_locked = 0

    @property
    def num_tokens(self) -> int:
        """Positions that the tree owns."""
        return self._num_tokens

    @property
    def num_locked(self) -> int:
        """Positions that a lock protects from eviction."""
        return self._num_locked

    def match_prefix(self, tokens: Sequence[int]) -> Match:
        """The longest prefix of `tokens` in the tree; splits a node where the prefix ends inside it."""
        match = self._walk(tuple(tokens))
        self._touch(match.node)
        return match

    def insert(self, tokens: Sequence[int], runs: Runs) -> tuple[Match, Runs]:
        """Add a sequence with its positions; returns the whole path and the positions the tree did not take.

        The tree keeps its own positions for what it had already. The positions returned second belong to the
        caller again; those of the path's known part that were the tree's own to begin with are not among them.
        """
        ids = tuple(tokens)
        assert len(ids) == count(runs), "one position per token"
        known = self._walk(ids)
        offered, fresh = cut(runs, known.num_tokens)
        spare = _differing(offered, known.runs)
        if not fresh:
            self._touch(known.node)
            return known, spare
        node = Node(ids[known.num_tokens :], fresh, known.node)
        known.node.children[node.tokens[0]] = node
        self._num_tokens += len(node.tokens)
        self._touch(node)
        return Match(node=node, num_tokens=len(ids), runs=join(known.runs, fresh)), spare

    def lock(self, node: Node) -> None:
        """Protect `node` and all above it until the matching `unlock`."""
        for each in _upwards(node):
            if each.locks == 0:
                self._num_locked += len(each.tokens)
            each.locks += 1

    def unlock(self, node: Node) -> None:
        """Take back one `lock`."""
        for each in _upwards(node):
            assert each.locks > 0, "unlocked more often than locked"
            each.locks -= 1
            if each.locks == 0:
                self._num_locked -= len(each.tokens)

    def evict(self, num: int) -> list[tuple[tuple[int, ...], Runs]]:
        """Give up at least `num` positions if that many are unlocked, least recently used leaves first.

        Returns, per cut, the sequence whose end was given up (whole, from the root) and the positions, which
        belong to the caller. A leaf longer than what is needed loses only its tail.
        """
        leaves = [(n.last_used, id(n), n) for n in self.nodes() if not n.children and not n.locks]
        heapq.heapify(leaves)
        given: list[tuple[tuple[int, ...], Runs]] = []
        while num > 0 and leaves:
            _, _, leaf = heapq.heappop(leaves)
            parent = leaf.parent
            given.append(self._give_up(leaf, num))
            num -= count(given[-1][1])
            if parent is not None and parent is not self.root and not parent.children and not parent.locks:
                heapq.heappush(leaves, (parent.last_used, id(parent), parent))
        return given

    def nodes(self) -> Iterator[Node]:
        """Every node but the root."""
        stack = list(self.root.children.values())
        while stack:
            node = stack.pop()
            yield node
            stack.extend(node.children.values())

    def integrity(self) -> None:
        """Assert the tree's invariants."""
        seen: set[int] = set()
        for node in self.nodes():
            assert node.tokens, "an empty node"
            assert len(node.tokens) == count(node.runs), "a node whose positions do not fit its tokens"
            assert node.parent is not None, "a node without a parent"
            assert node.parent.children[node.tokens[0]] is node, "a node its parent does not know"
            assert node.locks >= max((c.locks for c in node.children.values()), default=0), "lock not on the path"
            owned = {p for start, stop in node.runs for p in range(start, stop)}
            assert not owned & seen, "a position with two owners"
            seen |= owned
        assert len(seen) == self._num_tokens, "token count is off"
        locked = sum(len(n.tokens) for n in self.nodes() if n.locks)
        assert locked == self._num_locked, "locked count is off"

    def _walk(self, ids: tuple[int, ...]) -> Match:
        """`match_prefix` that does not count as a use."""
        node, matched, runs = self.root, 0, []
        while matched < len(ids):
            child = node.children.get(ids[matched])
            if child is None:
                break
            same = _common(child.tokens, ids, matched)
            node = child if same == len(child.tokens) else self._split(child, same)
            matched += same
            runs.append(node.runs)
            if node is not child:
                break
        return Match(node=node, num_tokens=matched, runs=join(*runs))

    def _touch(self, node: Node) -> None:
        self._clock += 1
        node.last_used = self._clock

    def _split(self, node: Node, at: int) -> Node:
        """Put a new node with `node`'s first `at` tokens above it and return it; locks hold for both halves."""
        assert node.parent is not None
        head_runs, tail_runs = cut(node.runs, at)
        head = Node(node.tokens[:at], head_runs, node.parent)
        head.locks, head.last_used = node.locks, node.last_used
        node.parent.children[head.tokens[0]] = head
        node.tokens, node.runs, node.parent = node.tokens[at:], tail_runs, head
        head.children[node.tokens[0]] = node
        return head

    def _give_up(self, leaf: Node, num: int) -> tuple[tuple[int, ...], Runs]:
        path = tuple(token for node in reversed(list(_upwards(leaf))) for token in node.tokens)
        kept, runs = cut(leaf.runs, max(0, len(leaf.tokens) - num))
        if kept:
            leaf.tokens, leaf.runs = leaf.tokens[: count(kept)], kept
        else:
            assert leaf.parent is not None
            del leaf.parent.children[leaf.tokens[0]]
        self._num_tokens -= count(runs)
        return path, runs


def _upwards(node: Node) -> Iterator[Node]:
    """`node` and its ancestors, without the root."""
    while node.parent is not None:
        yield node
        node = node.parent


def _common(a: tuple[int, ...], b: tuple[int, ...], offset: int) -> int:
    """Length of the common prefix of `a` and `b[offset:]`."""
    longest = min(len(a), len(b) - offset)
    if a[:longest] == b[offset : offset + longest]:
        return longest
    low, high = 0, longest  # a[:low] is common, a[:high] is not
    while high - low > 1:
        middle = (low + high) // 2
        if a[low:middle] == b[offset + low : offset + middle]:
            low = middle
        else:
            high = middle
    return low


def _differing(offered: Runs, owned: Runs) -> Runs:
    """Positions of `offered` that are not the same position at the same place in `owned`."""
    spare: list[tuple[int, int]] = []
    while offered:
        size = min(offered[0][1] - offered[0][0], owned[0][1] - owned[0][0])
        if offered[0][0] != owned[0][0]:
            spare.append((offered[0][0], offered[0][0] + size))
        _, offered = cut(offered, size)
        _, owned = cut(owned, size)
    return join(tuple(spare))
