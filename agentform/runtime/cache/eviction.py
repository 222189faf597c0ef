"""What is given up when room is needed: the cheapest to rebuild per byte, weighed by how likely it is asked for again.

::

    value = weight * lost_tokens / freed_positions * chance

`lost_tokens` would have to be computed again if the item were wanted after all, `freed_positions` is what giving it
up makes free (every position has the same number of bytes), and `chance` is that of a use soon: see `outlook`. Three
kinds of items, each an evictable of its own:

- the tail of a leaf, for attention-only models: one token lost per position freed, which is least recently used;
- the tail of a leaf after the last snapshot, for recurrent models: nothing can be resumed there, so it goes first;
- a snapshot: lost are the tokens since the last place before it where conversations were seen to part, for what lies
  between will be gone by then; freed are its own positions and, at the end of a leaf, the leaf's. `weight` is 1 where
  a conversation ends, the number of forks where conversations parted, and 1/256 where one merely went on.

A snapshot that is *superseded* goes before all else: its conversation went on to a later one, and no other path parts
in between. Were it kept, the end of another conversation would have to go. Where conversations are seen to go back to
such places, as a coding agent's do, it goes by its value: to put it last costs those up to two points of hit rate.
Nodes pinned for a conversation that is expected back go last, so a pin never stops the engine; where none is
expected soon, since all come round, pins would hold just what comes back last, and are not regarded.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, Protocol

from agentform.runtime.cache.outlook import RECENCY, Outlook
from agentform.runtime.cache.radix_tree import RadixNode, RadixTree, upwards
from agentform.runtime.cache.ranges import PositionRanges, count, join

__all__ = ["Cut", "GiveUp", "Spilled", "evict", "is_shared", "is_superseded", "spilled"]

_Rank = Literal[0, 1, 2]
_SUPERSEDED, _PLAIN, _PINNED = 0, 1, 2
_WENT_ON = 1 / 256


@dataclass(frozen=True, kw_only=True)
class Cut:
    """Something that was given up; its positions belong to the caller."""

    node: RadixNode
    path: tuple[int, ...]
    """All tokens from the root to the end of what was given up."""
    runs: PositionRanges
    num_tokens: int
    """Tokens whose KV went; 0 for a snapshot."""


class GiveUp(Protocol):
    """A way to choose; see `evict`."""

    def __call__(self, tree: RadixTree, num: int, /, *, recurrent: bool) -> list[Cut]:
        """Give up at least `num` positions if that many are unlocked."""
        ...


def evict(tree: RadixTree, num: int, *, recurrent: bool, outlook: Outlook = RECENCY) -> list[Cut]:
    """Give up at least `num` positions if that many are unlocked, least valuable first."""
    value_of = partial(_value, outlook=outlook, now=tree.clock(), recurrent=recurrent)
    order = itertools.count()  # of what is worth the same: the same goes whenever the same was asked
    heap = [(*value_of(node, before), next(order), node) for node, before in _evictable(tree)]
    heapq.heapify(heap)
    given: list[Cut] = []
    while num > 0 and heap:
        *known, place, node = heapq.heappop(heap)
        value = value_of(node, _before(node))
        if value > tuple(known):  # what was given up since made it worth more
            heapq.heappush(heap, (*value, place, node))
            continue
        parent = node.parent
        cuts = _give_up(tree, node, num, whole=recurrent)
        num -= sum(count(each.runs) for each in cuts)
        given += cuts
        # A parent with a snapshot of its own is in the heap already, valued as an inner node.
        if parent is not None and parent.parent is not None and _is_bare_leaf(parent):
            heapq.heappush(heap, (*value_of(parent, 0), next(order), parent))
    return given


def _evictable(tree: RadixTree) -> Iterator[tuple[RadixNode, int]]:
    """Nodes that can give something up, each with the end of the last shared snapshot before it."""
    stack = [(child, 0) for child in tree.root.children.values()]
    while stack:
        node, before = stack.pop()
        if (node.snapshot is not None and not node.snapshot.locks) or _is_bare_leaf(node):
            yield node, before
        below = node.end if node.snapshot is not None and is_shared(node) else before
        stack.extend((child, below) for child in node.children.values())


def _before(node: RadixNode) -> int:
    for above in upwards(node.parent) if node.parent is not None else ():
        if above.snapshot is not None and is_shared(above):
            return above.end
    return 0


def is_shared(node: RadixNode) -> bool:
    """Whether conversations parted at the end of this node."""
    return node.forks > 0 or len(node.children) > 1


def is_superseded(node: RadixNode) -> bool:
    """Whether the only way on from this node leads to another snapshot."""
    while not is_shared(node) and node.children:
        [node] = node.children.values()
        if node.snapshot is not None:
            return True
    return False


def _is_bare_leaf(node: RadixNode) -> bool:
    return not node.children and not node.locks and node.snapshot is None


def _value(node: RadixNode, before: int, *, outlook: Outlook, now: float, recurrent: bool) -> tuple[_Rank, float]:
    """Sort key: whether it is superseded or pinned, and the value of the module docstring."""
    rank: _Rank = _PINNED if node.is_awaited(now) and outlook.soon else _PLAIN
    if node.snapshot is None:
        return rank, 0.0 if recurrent else outlook.chance(node.last_used, now)
    if rank != _PINNED and not outlook.goes_back and is_superseded(node):
        rank = _SUPERSEDED
    lost = node.end - before
    freed = count(node.snapshot.runs)
    if not node.children and not node.locks:
        freed += len(node.tokens)
    return rank, _weight(node) * lost / freed * outlook.chance(node.snapshot.last_used, now)


def _weight(node: RadixNode) -> float:
    return max(float(node.forks), _WENT_ON) if node.children else 1.0


def _give_up(tree: RadixTree, node: RadixNode, num: int, *, whole: bool) -> list[Cut]:
    cuts: list[Cut] = []
    if node.snapshot is not None:
        runs = tree.detach(node)
        cuts.append(Cut(node=node, path=node.path(), runs=runs, num_tokens=0))
        num -= count(runs)
    if _is_bare_leaf(node) and (whole or num > 0):
        path = node.path()
        runs = tree.give_up(node, len(node.tokens) if whole else num)
        cuts.append(Cut(node=node, path=path, runs=runs, num_tokens=count(runs)))
    return cuts


@dataclass(frozen=True, kw_only=True)
class Spilled:
    """A sequence whose end is gone from the tree; the positions still hold it."""

    ids: tuple[int, ...]
    runs: PositionRanges
    """Positions of all of `ids`, those of nodes that stay among them."""
    snapshot: PositionRanges
    """Positions of the state after `ids`; `()` without recurrent layers."""
    num_own: int
    """Tokens at the end of `ids` that no other sequence shared."""
    is_shared: bool
    """Whether other sequences went on from here."""


def spilled(given: Sequence[Cut], *, recurrent: bool) -> list[Spilled]:
    """Those of `given` (all of one eviction) that a prompt could resume from, in the same order.

    Not among them are snapshots that a conversation went past: no prompt is likely to end there again. The last cut
    is undone first, so that each sequence is seen as it was when it lost its end.
    """
    before: dict[RadixNode, PositionRanges] = {}
    found: list[Spilled] = []
    for each in reversed(given):
        if each.num_tokens:
            before[each.node] = join(_runs(each.node, before), each.runs)
        if recurrent == bool(each.num_tokens) or (recurrent and is_superseded(each.node)):
            continue
        found.append(
            Spilled(
                ids=each.path,
                runs=join(*(_runs(node, before) for node in reversed(list(upwards(each.node))))),
                snapshot=each.runs if recurrent else (),
                num_own=count(_runs(each.node, before)),
                is_shared=each.node.forks > 0,
            )
        )
    return found[::-1]


def _runs(node: RadixNode, before: dict[RadixNode, PositionRanges]) -> PositionRanges:
    """Positions of a node's tokens when the cuts that `before` knows had not been made."""
    return before[node] if node in before else node.runs if _is_in_tree(node) else ()


def _is_in_tree(node: RadixNode) -> bool:
    """One that lost all its tokens keeps them by name only."""
    return node.parent is not None and node.parent.children.get(node.tokens[0]) is node
