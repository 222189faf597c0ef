"""Radix tree over token ids; each node owns the KV positions of its tokens, and perhaps a snapshot of its end.

::

    root ── [sys tools] [0, 40) * ──┬── [turn one ...] [40, 90) *       * a snapshot: the recurrent state there
                                    └── [another user] [200, 260)

A lock protects a node's tokens and everything above it, not its snapshot: that has locks of its own. A use touches
only the deepest node used, not its ancestors: those stay because they have children. What is given up, and in which
order, is `agentform.runtime.cache.eviction`'s business.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from agentform._util.prefixes import common_prefix
from agentform.runtime.cache.ranges import PositionRanges, count, cut, join

__all__ = ["Match", "RadixNode", "RadixTree", "Snapshot", "num_whole_ends", "upwards"]


@dataclass(kw_only=True, slots=True)
class Snapshot:
    """A recurrent state, never changed once taken; owned by the node whose last token it stands after."""

    runs: PositionRanges
    """Positions whose bytes hold it."""
    last_used: float
    locks: int = 0
    """Requests that have yet to load it."""
    hits: int = 0
    """Requests that started from it."""


class RadixNode:
    """A run of tokens and where their KV lives; `len(tokens) == count(runs)`."""

    __slots__ = (
        "children",
        "end",
        "expected_until",
        "forks",
        "is_cut",
        "last_used",
        "locks",
        "parent",
        "pinned_until",
        "runs",
        "snapshot",
        "tokens",
    )

    def __init__(self, tokens: tuple[int, ...], runs: PositionRanges, parent: RadixNode | None) -> None:
        self.tokens = tokens
        self.runs = runs
        self.parent = parent
        self.end: int = len(tokens) + (parent.end if parent is not None else 0)
        """Tokens from the root to the end of this node."""
        self.children: dict[int, RadixNode] = {}
        self.snapshot: Snapshot | None = None
        self.locks = 0
        self.last_used = 0.0
        self.forks = 0
        """How often a second or later continuation was started at the end of this node."""
        self.is_cut = False
        """Whether tokens that stood behind what is left were given up."""
        self.pinned_until = 0.0
        """Time until which a conversation is expected back here."""
        self.expected_until = 0.0
        """Time until which a request that waits is expected to start here."""

    def is_awaited(self, now: float) -> bool:
        """Whether a conversation or a request is expected here."""
        return max(self.pinned_until, self.expected_until) > now

    def deepest_snapshot(self) -> RadixNode | None:
        """The nearest node with a snapshot, from this one upwards."""
        for node in upwards(self):
            if node.snapshot is not None:
                return node
        return None

    def path(self) -> tuple[int, ...]:
        """All tokens from the root to the end of this node."""
        return tuple(token for node in reversed(list(upwards(self))) for token in node.tokens)


@dataclass(frozen=True, kw_only=True)
class Match:
    """The longest known prefix."""

    node: RadixNode
    """The node that ends exactly at the end of the prefix; the root for none."""
    num_tokens: int
    runs: PositionRanges
    """Positions of the prefix, still owned by the tree."""


class RadixTree:
    """Knows which token sequences have KV, and where; knows nothing of the pool the positions come from."""

    def __init__(self, *, clock: Callable[[], float] | None = None) -> None:
        """`clock` dates uses, in seconds; without one each use counts as one second."""
        self.root = RadixNode((), (), None)
        self.clock: Callable[[], float] = clock or _counter()
        self._num_tokens = 0
        self._num_locked = 0
        self._num_snapshot_positions = 0
        self._num_snapshots = 0

    @property
    def num_tokens(self) -> int:
        """Positions that the tree owns."""
        return self._num_tokens

    @property
    def num_snapshots(self) -> int:
        """Snapshots that the tree owns."""
        return self._num_snapshots

    @property
    def num_snapshot_positions(self) -> int:
        """Positions that hold them."""
        return self._num_snapshot_positions

    @property
    def num_locked(self) -> int:
        """Positions that a lock protects from eviction."""
        return self._num_locked

    def match_prefix(self, tokens: Sequence[int], *, touch: bool = True) -> Match:
        """The longest prefix of `tokens` in the tree; splits a node where the prefix ends inside it.

        Counts as a use unless `touch` is false.
        """
        match = self._walk(tuple(tokens))
        if touch:
            self._touch(match.node)
        return match

    def insert(self, tokens: Sequence[int], runs: PositionRanges) -> tuple[Match, PositionRanges]:
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
        node = RadixNode(ids[known.num_tokens :], fresh, known.node)
        known.node.forks += bool(known.node.children)
        known.node.children[node.tokens[0]] = node
        self._num_tokens += len(node.tokens)
        self._touch(node)
        return Match(node=node, num_tokens=len(ids), runs=join(known.runs, fresh)), spare

    def lock(self, node: RadixNode) -> None:
        """Protect `node` and all above it until the matching `unlock`."""
        for each in upwards(node):
            if each.locks == 0:
                self._num_locked += len(each.tokens)
            each.locks += 1

    def unlock(self, node: RadixNode) -> None:
        """Take back one `lock`."""
        for each in upwards(node):
            assert each.locks > 0, "unlocked more often than locked"
            each.locks -= 1
            if each.locks == 0:
                self._num_locked -= len(each.tokens)

    def attach(self, tokens: Sequence[int], runs: PositionRanges) -> bool:
        """Give the end of a known sequence a snapshot; false, and the positions stay the caller's, if it has one."""
        match = self._walk(tuple(tokens))
        assert match.num_tokens == len(tokens) > 0, "a snapshot of tokens that are not in the tree"
        if match.node.snapshot is not None:
            return False
        match.node.snapshot = Snapshot(runs=runs, last_used=self.clock())
        self._num_snapshots += 1
        self._num_snapshot_positions += count(runs)
        return True

    def detach(self, node: RadixNode) -> PositionRanges:
        """Take a node's snapshot away; its positions belong to the caller."""
        assert node.snapshot is not None, "no snapshot to take"
        assert not node.snapshot.locks, "a snapshot that a request has yet to load"
        runs, node.snapshot = node.snapshot.runs, None
        self._num_snapshots -= 1
        self._num_snapshot_positions -= count(runs)
        return runs

    def give_up(self, leaf: RadixNode, num: int) -> PositionRanges:
        """Cut the last `num` tokens (or all) off an unlocked leaf without a snapshot; the caller gets the positions."""
        assert not leaf.children, "only leaves lose tokens"
        assert not leaf.locks, "a locked node"
        assert leaf.snapshot is None, "a snapshot goes before its tokens"
        kept, runs = cut(leaf.runs, max(0, len(leaf.tokens) - num))
        leaf.end -= count(runs)
        leaf.is_cut = True
        if kept:
            leaf.tokens, leaf.runs = leaf.tokens[: count(kept)], kept
        else:
            assert leaf.parent is not None
            del leaf.parent.children[leaf.tokens[0]]
            leaf.parent.is_cut = True
        self._num_tokens -= count(runs)
        return runs

    def nodes(self) -> Iterator[RadixNode]:
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
            assert node.end == node.parent.end + len(node.tokens), "a node that is not where it thinks"
            assert node.snapshot is None or node.snapshot.locks >= 0, "a snapshot unlocked too often"
            for runs in (node.runs, node.snapshot.runs if node.snapshot is not None else ()):
                owned = {p for start, stop in runs for p in range(start, stop)}
                assert not owned & seen, "a position with two owners"
                seen |= owned
        assert len(seen) == self._num_tokens + self._num_snapshot_positions, "position count is off"
        assert sum(n.snapshot is not None for n in self.nodes()) == self._num_snapshots, "snapshot count is off"
        locked = sum(len(n.tokens) for n in self.nodes() if n.locks)
        assert locked == self._num_locked, "locked count is off"

    def _walk(self, ids: tuple[int, ...]) -> Match:
        """`match_prefix` that does not count as a use."""
        node, matched, runs = self.root, 0, []
        while matched < len(ids):
            child = node.children.get(ids[matched])
            if child is None:
                break
            same = common_prefix(child.tokens, ids, matched)
            node = child if same == len(child.tokens) else self._split(child, same)
            matched += same
            runs.append(node.runs)
            if node is not child:
                break
        return Match(node=node, num_tokens=matched, runs=join(*runs))

    def _touch(self, node: RadixNode) -> None:
        node.last_used = self.clock()

    def _split(self, node: RadixNode, at: int) -> RadixNode:
        """Put a new node with `node`'s first `at` tokens above it and return it; locks hold for both halves."""
        assert node.parent is not None
        head_runs, tail_runs = cut(node.runs, at)
        head = RadixNode(node.tokens[:at], head_runs, node.parent)
        head.locks, head.last_used = node.locks, node.last_used  # the snapshot and the pin stay with the tail
        node.parent.children[head.tokens[0]] = head
        node.tokens, node.runs, node.parent = node.tokens[at:], tail_runs, head
        head.children[node.tokens[0]] = node
        return head


def upwards(node: RadixNode) -> Iterator[RadixNode]:
    """`node` and its ancestors, without the root."""
    while node.parent is not None:
        yield node
        node = node.parent


def _counter() -> Callable[[], float]:
    ticks = itertools.count(1)
    return lambda: float(next(ticks))


def _differing(offered: PositionRanges, owned: PositionRanges) -> PositionRanges:
    """Positions of `offered` that are not the same position at the same place in `owned`."""
    spare: list[tuple[int, int]] = []
    while offered:
        size = min(offered[0][1] - offered[0][0], owned[0][1] - owned[0][0])
        if offered[0][0] != owned[0][0]:
            spare.append((offered[0][0], offered[0][0] + size))
        _, offered = cut(offered, size)
        _, owned = cut(owned, size)
    return join(tuple(spare))


def num_whole_ends(tree: RadixTree) -> int:
    """Sequences that the tree holds to their end, those that were cut by the share that is left."""
    whole: list[int] = []
    left: list[int] = []
    for node in tree.nodes():
        if not node.children:
            (left if node.is_cut else whole).append(_own_tokens(node))
    usual = sum(whole) / len(whole) if whole else 1.0
    return len(whole) + round(sum(min(1.0, num / usual) for num in left))


def _own_tokens(leaf: RadixNode) -> int:
    """Tokens since it parted from others."""
    above = next((node for node in upwards(leaf) if len(node.children) > 1), None)
    return leaf.end - (above.end if above is not None else 0)
