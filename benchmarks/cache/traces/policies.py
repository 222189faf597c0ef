"""Where snapshots are taken and what is evicted: agentform's way, and the others that it is measured against."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass

from agentform.runtime.cache.eviction import Cut, GiveUp
from agentform.runtime.cache.handle import Lease
from agentform.runtime.cache.radix_tree import RadixNode, RadixTree
from agentform.runtime.cache.ranges import count
from agentform.runtime.scheduling.replay import Places, TracedRequest, engine_places

__all__ = ["POLICIES", "Policy", "by_value", "least_recently_used"]

_GRID_TOKENS = 512


@dataclass(frozen=True, kw_only=True)
class Policy:
    """One way to run the cache."""

    name: str
    places: Places
    give_up: GiveUp | None
    """`None` is the cache's own way."""


def least_recently_used(tree: RadixTree, num: int, /, *, recurrent: bool) -> list[Cut]:
    """Snapshots and bare leaves by their last use alone; a leaf goes with its snapshot."""
    return by_value(tree, num, _last_used, recurrent=recurrent)


def by_value(tree: RadixTree, num: int, value: Callable[[RadixNode], float], *, recurrent: bool) -> list[Cut]:
    """Snapshots and bare leaves, the least `value` first; a leaf goes with its snapshot."""
    heap = [(value(node), id(node), node) for node in tree.nodes() if _can_go(node)]
    heapq.heapify(heap)
    given: list[Cut] = []
    while num > 0 and heap:
        *_, node = heapq.heappop(heap)
        parent = node.parent
        cuts = _take(tree, node, num, recurrent)
        num -= sum(count(each.runs) for each in cuts)
        given += cuts
        if parent is not None and parent.parent is not None and parent.snapshot is None and _can_go(parent):
            # Behind the last snapshot nothing can be resumed: it goes at once where the model is recurrent.
            heapq.heappush(heap, (0.0 if recurrent else value(parent), id(parent), parent))
    return given


def _in_bulk(tree: RadixTree, num: int, /, *, recurrent: bool) -> list[Cut]:
    """The same, a sixty-fourth of the cache at a time: with a snapshot every 512 tokens each scan is long."""
    return least_recently_used(tree, max(num, tree.num_snapshot_positions // 64), recurrent=recurrent)


def _can_go(node: RadixNode) -> bool:
    if node.snapshot is not None:
        return not node.snapshot.locks
    return not node.children and not node.locks


def _last_used(node: RadixNode) -> float:
    return node.snapshot.last_used if node.snapshot is not None else node.last_used


def _take(tree: RadixTree, node: RadixNode, num: int, recurrent: bool) -> list[Cut]:
    path, cuts = node.path(), []
    if node.snapshot is not None:
        cuts.append(Cut(node=node, path=path, runs=tree.detach(node), num_tokens=0))
    if not node.children and not node.locks:
        runs = tree.give_up(node, len(node.tokens) if recurrent else num)
        cuts.append(Cut(node=node, path=path, runs=runs, num_tokens=count(runs)))
    return cuts


def _grid(lease: Lease, ask: TracedRequest, block: int) -> list[int]:
    every = max(1, _GRID_TOKENS // block)
    return list(range(every, len(ask.prompt) + len(ask.written) + 1, every))


def _end(lease: Lease, ask: TracedRequest, block: int) -> list[int]:
    return [len(ask.prompt) + len(ask.written)]


POLICIES = (
    Policy(name="ours", places=engine_places, give_up=None),
    Policy(name="grid", places=_grid, give_up=_in_bulk),
    Policy(name="end", places=_end, give_up=least_recently_used),
)
