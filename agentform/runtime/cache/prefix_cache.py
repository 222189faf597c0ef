"""The conversation cache: pool and tree together, and what each running request holds of them.

Every position has exactly one owner: the free list, the tree, or the lease of a running request::

    capacity = free + tree (locked or evictable) + live (held by leases)

A lease is opened only if all it may ever need fits beside what others hold and were promised, so an allocation
under a lease never fails and running requests never wait for each other.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from agentform.runtime.cache.pages import PagePool
from agentform.runtime.cache.radix_tree import Match, Node, RadixTree
from agentform.runtime.cache.runs import Runs, count, end_of, join
from agentform.runtime.cache.statistics import CacheStatistics

__all__ = ["Lease", "PrefixCache"]

_REMEMBERED_EVICTIONS = 4096


@dataclass(kw_only=True)
class Lease:
    """What one running request holds; `close` gives everything back.

    `shared` belongs to the tree and is locked through `node`; `own` belongs to the lease; `reserved` positions are
    promised and not yet taken.
    """

    node: Node
    shared: Runs
    num_cached: int
    """Prompt tokens found in the tree when the lease was opened."""
    reserved: int
    miss: str | None
    own: Runs = ()
    is_open: bool = True

    @property
    def runs(self) -> Runs:
        """Positions of all the sequence's tokens so far, in order."""
        return join(self.shared, self.own)


class PrefixCache:
    """Finds, lends, grows and evicts cached prefixes; used by one thread, `statistics` by any."""

    def __init__(self, capacity: int, *, budget_bytes: int = 0) -> None:
        self._pool = PagePool(capacity)
        self._tree = RadixTree()
        self._budget_bytes = budget_bytes
        self._live = 0
        self._reserved = 0
        self._evictions: OrderedDict[int, None] = OrderedDict()
        self._misses: Counter[str] = Counter()
        self._requests = self._lookup = self._hit = self._computed = self._evicted = 0

    @property
    def capacity(self) -> int:
        """Positions that exist."""
        return self._pool.capacity

    def open(self, ids: Sequence[int], *, usable: int, extra: int) -> Lease | None:
        """Lend the longest cached prefix of `ids[:usable]` with room for the rest of `ids` and `extra` more.

        `None` if others hold too much for now. The caller must have checked `len(ids) + extra <= capacity`.
        """
        match = self._tree.match_prefix(ids[:usable])
        self._tree.lock(match.node)
        need = len(ids) - match.num_tokens + extra
        if need > self._available():
            self._tree.unlock(match.node)
            return None
        self._reserved += need
        miss = self._miss(ids, match, usable)
        self._count(ids, match, miss)
        return Lease(node=match.node, shared=match.runs, num_cached=match.num_tokens, reserved=need, miss=miss)

    def reserve(self, lease: Lease, num: int) -> bool:
        """Promise `num` positions more, if they can be had without waiting."""
        if num > self._available():
            return False
        lease.reserved += num
        self._reserved += num
        return True

    def grow(self, lease: Lease, num: int) -> Runs:
        """Positions for the next `num` tokens of the lease's sequence."""
        runs = self.borrow(lease, num)
        lease.own = join(lease.own, runs)
        return runs

    def borrow(self, lease: Lease, num: int, *, behind: int | None = None) -> Runs:
        """Take `num` of the promised positions, not (yet) part of the sequence; see `give_back`."""
        assert lease.is_open, "a closed lease"
        assert num <= lease.reserved, "more positions than were promised"
        self._make_room(num)
        runs = self._pool.alloc(num, behind=end_of(lease.runs) if behind is None else behind)
        assert runs is not None, "promised positions are missing"
        lease.reserved -= num
        self._reserved -= num
        self._live += num
        return runs

    def give_back(self, lease: Lease, runs: Runs) -> None:
        """Return borrowed positions; they are promised to the lease again."""
        self._free_live(runs)
        lease.reserved += count(runs)
        self._reserved += count(runs)

    def commit(self, lease: Lease, ids: Sequence[int]) -> None:
        """Put the sequence `ids` (all of it computed) into the tree; the lease keeps it locked."""
        assert lease.is_open, "a closed lease"
        match, spare = self._tree.insert(ids, lease.runs)
        self._tree.lock(match.node)
        self._tree.unlock(lease.node)
        self._live -= count(lease.own) - count(spare)
        self._free_live(spare)
        lease.node, lease.shared, lease.own = match.node, match.runs, ()

    def close(self, lease: Lease) -> None:
        """Give back all that the lease holds; closing twice is harmless. Borrowed positions must be back."""
        if not lease.is_open:
            return
        lease.is_open = False
        self._tree.unlock(lease.node)
        self._free_live(lease.own)
        self._reserved -= lease.reserved
        lease.own, lease.reserved = (), 0

    def count_computed(self, num: int) -> None:
        """Add to the count of tokens that went through the model."""
        self._computed += num

    def statistics(self) -> CacheStatistics:
        """A snapshot of the counters."""
        return CacheStatistics(
            requests=self._requests,
            lookup_tokens=self._lookup,
            hit_tokens=self._hit,
            computed_tokens=self._computed,
            misses=dict(self._misses),
            evicted_tokens=self._evicted,
            resident_tokens=self._tree.num_tokens,
            capacity_tokens=self._pool.capacity,
            live_tokens=self._live,
            budget_bytes=self._budget_bytes,
        )

    def integrity(self) -> None:
        """Assert that every position has exactly one owner."""
        self._pool.integrity()
        self._tree.integrity()
        held = self._pool.num_free + self._tree.num_tokens + self._live
        assert held == self.capacity, f"{held} positions have an owner, {self.capacity} exist"
        assert self._reserved >= 0, "reservations are off"
        free = {p for start, stop in self._pool.free_runs() for p in range(start, stop)}
        owned = {p for n in self._tree.nodes() for start, stop in n.runs for p in range(start, stop)}
        assert not free & owned, "a cached position is free"

    def _available(self) -> int:
        """Positions that may still be promised: free or evictable, and not promised yet."""
        return self.capacity - self._tree.num_locked - self._live - self._reserved

    def _make_room(self, num: int) -> None:
        short = num - self._pool.num_free
        if short <= 0:
            return
        # A little more than needed, so that a full pool does not walk the tree for each token.
        for path, runs in self._tree.evict(max(short, self.capacity // 256)):
            self._pool.free(runs)
            self._evicted += count(runs)
            self._remember(path[: len(path) - count(runs) + 1])

    def _free_live(self, runs: Runs) -> None:
        self._pool.free(runs)
        self._live -= count(runs)

    def _remember(self, prefix: tuple[int, ...]) -> None:
        self._evictions[hash(prefix)] = None
        while len(self._evictions) > _REMEMBERED_EVICTIONS:
            self._evictions.popitem(last=False)

    def _miss(self, ids: Sequence[int], match: Match, usable: int) -> str | None:
        at = match.num_tokens
        if at >= min(usable, len(ids) - 1):
            return None
        if hash(tuple(ids[: at + 1])) in self._evictions:
            return "evicted"
        if not at:
            return "cold"
        return f"diverged at token {at}" if match.node.children else f"new after token {at}"

    def _count(self, ids: Sequence[int], match: Match, miss: str | None) -> None:
        self._requests += 1
        self._lookup += len(ids)
        self._hit += match.num_tokens
        if miss is not None:
            self._misses[miss.split(" ", 1)[0]] += 1
