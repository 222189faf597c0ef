"""The conversation cache: pool and tree together, and what each running request holds of them.

Every position has exactly one owner: the free list, the tree, or the lease of a running request::

    capacity = free + tree (tokens and snapshots, locked or evictable) + live (held by leases)

A snapshot of a recurrent state lives in positions of the same pool, so one budget covers both and how it is divided
follows the load. A lease is opened only if all it may ever need fits beside what others hold and were promised, so
an allocation under a lease never fails and running requests never wait for each other. Snapshots are not promised:
one that finds no room is not taken.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence

from agentform.runtime.cache.accounting import Ledger
from agentform.runtime.cache.eviction import Cut, GiveUp, evict, is_shared, is_superseded
from agentform.runtime.cache.handle import Lease
from agentform.runtime.cache.position_pool import PagePool
from agentform.runtime.cache.radix_tree import Match, RadixNode, RadixTree, num_whole_ends, upwards
from agentform.runtime.cache.ranges import PositionRanges, count, cut, end_of, join
from agentform.runtime.cache.state_slots import FreeSlots, StateSlot
from agentform.runtime.cache.statistics import CacheStatistics, TierStatistics

__all__ = ["Lease", "PrefixCache"]

_EXPECTED_S = 5.0
"""How long what a queued request will use is kept; the queue says so again before each step."""


class PrefixCache:
    """Finds, lends, grows and evicts cached prefixes; used by one thread, `statistics` by any."""

    def __init__(
        self,
        capacity: int,
        *,
        budget_bytes: int = 0,
        position_bytes: int = 0,
        snapshot_positions: int = 0,
        num_slots: int = 0,
        snapshot_bytes: int = 0,
        codec: str = "",
        keep_live: bool = False,
        refresh_tokens: int = 0,
        reuse: bool = True,
        give_up: GiveUp | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`capacity` in positions. A model with recurrent layers has `snapshot_positions` and `num_slots` above 0.

        `keep_live`: the state that a request leaves in its slot serves the request that goes on from there, until the
        slot is needed. `refresh_tokens` before a snapshot run again after it is restored. `snapshot_bytes` and `codec`
        are for the statistics.
        Without `reuse` every request starts from nothing: what a cache is measured against. `give_up` chooses what
        is evicted, by default `evict` under the outlook that the conversations give.
        """
        self._pool = PagePool(capacity)
        self._tree = RadixTree(clock=clock)
        self._budget_bytes = budget_bytes
        self._position_bytes = position_bytes
        self._snapshot_positions = snapshot_positions
        self._snapshot_bytes = snapshot_bytes
        self._codec = codec
        self._keep_live = keep_live
        self._refresh_tokens = refresh_tokens
        self._slots = FreeSlots(num_slots)
        self._reuse = reuse
        self._give_up = give_up or self._evict
        self._spill: Callable[[Sequence[Cut]], None] = _let_go
        self._live = 0
        self._reserved = 0
        self._locked_snapshots = 0
        self._ledger = Ledger()

    @property
    def capacity(self) -> int:
        """Positions that exist."""
        return self._pool.capacity

    @property
    def is_recurrent(self) -> bool:
        """Whether sequences resume from snapshots only."""
        return self._snapshot_positions > 0

    @property
    def is_reusing(self) -> bool:
        """Whether requests start from what others computed."""
        return self._reuse

    def expect(self, ids: Sequence[int], *, usable: int) -> int:
        """How many of `ids[:usable]` a request would find; where they end goes last for the next seconds.

        Does not count as a use.
        """
        match = self._tree.match_prefix(ids[: usable if self._reuse else 0], touch=False)
        node = match.node.deepest_snapshot() if self.is_recurrent else match.node
        if node is None or not node.end:
            return 0
        node.expected_until = self._tree.clock() + _EXPECTED_S
        return node.end

    def spill_to(self, spill: Callable[[Sequence[Cut]], None]) -> None:
        """From now on `spill` is given what is evicted, all of one eviction, before its positions are used again."""
        self._spill = spill

    def freed_to(self, told: Callable[[PositionRanges], None]) -> None:
        """From now on `told` is given all positions that nobody owns any more, before they are used again."""
        self._pool.freed_to(told)

    def shed(self, num: int) -> bool:
        """Give up at least `num` positions, if that many are not held; false if none is."""
        given = self._give_up(self._tree, num, recurrent=self.is_recurrent)
        self._spill(given)
        for each in given:
            self._pool.free(each.runs)
            self._ledger.evicted(each)
        return bool(given)

    def owned(self) -> set[int]:
        """Positions of tokens that the tree holds; for tests and debugging."""
        return {p for node in self._tree.nodes() for start, stop in node.runs for p in range(start, stop)}

    def peek(self, ids: Sequence[int]) -> tuple[int, int, PositionRanges, PositionRanges]:
        """What is known of `ids`: tokens with KV, tokens that can be resumed from, and of these the KV's positions

        and those of the snapshot after them. Does not count as a use.
        """
        match = self._tree.match_prefix(ids, touch=False)
        node = match.node.deepest_snapshot() if self.is_recurrent else match.node
        end = node.end if node is not None else 0
        snapshot = node.snapshot.runs if node is not None and node.snapshot is not None else ()
        return match.num_tokens, end, cut(match.runs, end)[0], snapshot

    def open(
        self,
        ids: Sequence[int],
        *,
        usable: int,
        extra: int,
        conversation: str | None = None,
        is_request: bool = True,
    ) -> Lease | None:
        """Lend the longest cached prefix of `ids[:usable]` with room for the rest of `ids` and `extra` more.

        `None` if others hold too much for now. The caller must have checked `len(ids) + extra <= capacity`.
        Only requests are counted and get a slot.
        """
        if is_request and self.is_recurrent and not self._slots:
            return None
        usable = usable if self._reuse else 0
        match = self._tree.match_prefix(ids[:usable])
        self._tree.lock(match.node)
        source = match.node.deepest_snapshot() if self.is_recurrent else None
        need = len(ids) - match.num_tokens + extra
        (source or match.node).expected_until = 0.0  # others that wait here say so again
        self._hold(source)
        if need > self._available():
            self._release(source)
            self._tree.unlock(match.node)
            return None
        self._reserved += need
        after = source.end if source is not None else 0
        slot = self._slots.take(ids, after=after, upto=match.num_tokens) if is_request else None
        if slot is not None and slot.num_tokens:
            self._release(source)
            source = None
        self._ledger.came_back(conversation, self._tree.clock())
        if is_request and source is not None:
            self._ledger.curve.resumed(before_end=is_superseded(source))
        lease = self._lend(ids, match, source, slot, usable, need, conversation)
        if is_request:
            self._ledger.request(lease, ids, match, usable, recurrent=self.is_recurrent)
        return lease

    def loaded(self, lease: Lease) -> None:
        """The lease's snapshot was copied to its slot and may be evicted from now on."""
        self._release(lease.source)
        lease.source = None

    def reserve(self, lease: Lease, num: int) -> bool:
        """Promise `num` positions more, if they can be had without waiting."""
        if num > self._available():
            return False
        lease.reserved += num
        self._reserved += num
        return True

    def grow(self, lease: Lease, num: int) -> PositionRanges:
        """Positions for the next `num` tokens of the lease's sequence."""
        runs = self.borrow(lease, num)
        lease.own = join(lease.own, runs)
        return runs

    def shrink(self, lease: Lease, num_tokens: int) -> None:
        """Return the positions after the first `num_tokens` of the sequence; they are promised again."""
        if count(lease.runs) > num_tokens:
            lease.own, spare = cut(lease.own, num_tokens - count(lease.shared))
            self.give_back(lease, spare)

    def borrow(self, lease: Lease, num: int, *, after: int | None = None) -> PositionRanges:
        """Take `num` of the promised positions, not (yet) part of the sequence; see `give_back`."""
        assert lease.is_open, "a closed lease"
        assert num <= lease.reserved, "more positions than were promised"
        self._make_room(num)
        runs = self._pool.alloc(num, after=end_of(lease.runs) if after is None else after)
        assert runs is not None, "promised positions are missing"
        lease.reserved -= num
        self._reserved -= num
        self._live += num
        return runs

    def give_back(self, lease: Lease, runs: PositionRanges) -> None:
        """Return borrowed positions; they are promised to the lease again."""
        self._free_live(runs)
        lease.reserved += count(runs)
        self._reserved += count(runs)

    def snapshot_room(self, lease: Lease, num_tokens: int) -> PositionRanges | None:
        """Positions for a snapshot after the first `num_tokens` of the lease's sequence.

        `None` if there is one, or one under way, or no room for one. The lease owns the positions until `attach`.
        """
        pending = lease.pending if lease.pending is not None else {}
        if not self._reuse or num_tokens in pending or self._has_snapshot(lease.node, num_tokens):
            return None
        if self._snapshot_positions > self._available():
            self._ledger.counters.declined_snapshots += 1
            return None
        self._supersede(lease, num_tokens)
        self._make_room(self._snapshot_positions)
        runs = self._pool.alloc(self._snapshot_positions)
        assert runs is not None, "positions that were available are missing"
        self._live += count(runs)
        lease.pending = {**pending, num_tokens: runs}
        return runs

    def commit(self, lease: Lease, ids: Sequence[int]) -> None:
        """Put the sequence `ids` (all of it computed) into the tree; the lease keeps it locked."""
        assert lease.is_open, "a closed lease"
        match, spare = self._tree.insert(ids, lease.runs)
        self._tree.lock(match.node)
        self._tree.unlock(lease.node)
        self._live -= count(lease.own) - count(spare)
        self._free_live(spare)
        lease.node, lease.shared, lease.own = match.node, match.runs, ()

    def attach(self, lease: Lease, ids: Sequence[int]) -> None:
        """The state after `ids`, which are in the tree, now stands in the positions that `snapshot_room` gave."""
        assert lease.pending is not None, "no snapshot under way"
        runs = lease.pending.pop(len(ids))
        if self._tree.attach(ids, runs):
            self._live -= count(runs)
        else:
            self._free_live(runs)

    def drop_pending(self, lease: Lease) -> None:
        """Give up the snapshots that are under way."""
        for runs in (lease.pending or {}).values():
            self._free_live(runs)
        lease.pending = None

    def close(self, lease: Lease, *, ends_turn: bool = False, live: Sequence[int] = ()) -> None:
        """Give back all that the lease holds; closing twice is harmless. Borrowed positions must be back.

        `ends_turn`: the lease's conversation is expected back here. Its end is pinned for as long as conversations
        usually stay away: it goes only when nothing else is left to evict. `live`: tokens whose state the lease's slot
        holds; none if it is undefined.
        """
        if not lease.is_open:
            return
        lease.is_open = False
        self.drop_pending(lease)
        self._release(lease.source)
        if lease.slot is not None:
            self._slots.give_back(lease.slot, live if self._keep_live else ())
        if lease.conversation is not None:
            self._ledger.ended(lease.node, lease.conversation)
            if ends_turn:
                self._ledger.turn_ended(lease.conversation, self._tree.clock())
        self._tree.unlock(lease.node)
        self._free_live(lease.own)
        self._reserved -= lease.reserved
        lease.own, lease.reserved, lease.source, lease.slot = (), 0, None, None

    def expect_return(self, conversation: str, label: str | None) -> None:
        """The conversation waits for `label` now; its end is pinned for as long as that usually takes."""
        self._ledger.left(conversation, self._tree.clock(), label)

    def count_computed(self, num: int) -> None:
        """Add to the count of tokens that went through the model."""
        self._ledger.counters.computed += num

    def statistics(self) -> CacheStatistics:
        """A snapshot of the counters."""
        total, counters = self._ledger.counters.total, self._ledger.counters
        return CacheStatistics(
            requests=total.requests,
            lookup_tokens=total.lookup,
            hit_tokens=total.hit,
            matched_tokens=total.matched,
            restored_tokens=total.restored,
            resumed_tokens=total.resumed,
            replayed_tokens=total.replayed,
            refreshed_tokens=total.refreshed,
            computed_tokens=counters.computed,
            misses=dict(total.misses),
            evicted_tokens=counters.evicted_tokens,
            evicted_snapshots=counters.evicted_snapshots,
            declined_snapshots=counters.declined_snapshots,
            resident_tokens=self._tree.num_tokens,
            resident_snapshots=self._tree.num_snapshots,
            snapshot_positions=self._snapshot_positions,
            snapshot_bytes=self._snapshot_bytes,
            codec=self._codec,
            capacity_tokens=self._pool.capacity,
            live_tokens=self._live,
            position_bytes=self._position_bytes,
            budget_bytes=self._budget_bytes,
            working_set=self._ledger.reuse.working_set(),
            tiers={"device": self._device()},
            conversations=counters.conversations(),
        )

    def integrity(self) -> None:
        """Assert that every position has exactly one owner."""
        self._pool.integrity()
        self._tree.integrity()
        held = self._pool.num_free + self._tree.num_tokens + self._tree.num_snapshot_positions + self._live
        assert held == self.capacity, f"{held} positions have an owner, {self.capacity} exist"
        assert self._reserved >= 0, "reservations are off"
        free = {p for start, stop in self._pool.free_runs() for p in range(start, stop)}
        kept = [runs for n in self._tree.nodes() for runs in (n.runs, n.snapshot.runs if n.snapshot else ())]
        assert not free & {p for runs in kept for start, stop in runs for p in range(start, stop)}, "cached and free"
        locked = sum(1 for n in self._tree.nodes() if n.snapshot is not None and n.snapshot.locks)
        assert locked * self._snapshot_positions == self._locked_snapshots, "locked snapshots are off"

    def _lend(
        self,
        ids: Sequence[int],
        match: Match,
        source: RadixNode | None,
        slot: StateSlot | None,
        usable: int,
        need: int,
        conversation: str | None,
    ) -> Lease:
        if source is not None and source.snapshot is not None:
            source.snapshot.last_used = self._tree.clock()
            source.snapshot.hits += 1
        live = slot.num_tokens if slot is not None else 0
        resumable = live or (source.end if source is not None else 0)
        return Lease(
            node=match.node,
            shared=match.runs,
            start=resumable if self.is_recurrent else match.num_tokens,
            num_matched=match.num_tokens,
            reserved=need,
            slot=slot.index if slot is not None else None,
            is_live=live > 0,
            refresh=min(self._refresh_tokens, source.end) if source is not None else 0,
            source=source,
            diverged=bool(match.node.children) and match.num_tokens < min(usable, len(ids) - 1),
            conversation=conversation,
        )

    def _device(self) -> TierStatistics:
        used = self._tree.num_tokens + self._tree.num_snapshot_positions
        return TierStatistics(
            tokens=self._tree.num_tokens,
            snapshots=self._tree.num_snapshots,
            used_bytes=used * self._position_bytes,
            limit_bytes=self.capacity * self._position_bytes,
        )

    def _available(self) -> int:
        """Positions that may still be promised: free or evictable, and not promised yet."""
        held = self._tree.num_locked + self._locked_snapshots + self._live
        return self.capacity - held - self._reserved

    def _hold(self, node: RadixNode | None) -> None:
        if node is not None and node.snapshot is not None:
            self._locked_snapshots += 0 if node.snapshot.locks else self._snapshot_positions
            node.snapshot.locks += 1

    def _release(self, node: RadixNode | None) -> None:
        if node is not None and node.snapshot is not None:
            node.snapshot.locks -= 1
            self._locked_snapshots -= 0 if node.snapshot.locks else self._snapshot_positions

    def _make_room(self, num: int) -> None:
        short = num - self._pool.num_free
        if short > 0:
            # A little more than needed, so that a full pool does not walk the tree for each token.
            self.shed(max(short, self.capacity // 256))

    def _supersede(self, lease: Lease, num_tokens: int) -> None:
        """Let the conversation's earlier snapshot make room for its longer one.

        It will be the cheapest thing in the pool as soon as the longer one stands. Were it kept until then, another
        conversation's end would go: in a sequence, that of the next to come.
        """
        node = None if self._ledger.curve.goes_back else lease.node.deepest_snapshot()
        if node is None or node.snapshot is None or self._snapshot_positions <= self._pool.num_free:
            return
        on_the_way = itertools.takewhile(lambda each: each is not node, upwards(lease.node))
        is_needed = node.snapshot.locks or node.is_awaited(self._tree.clock())
        if is_needed or node.end >= num_tokens or any(map(is_shared, (node, *on_the_way))):
            return
        path = node.path()
        given = Cut(node=node, path=path, runs=self._tree.detach(node), num_tokens=0)
        self._pool.free(given.runs)
        self._ledger.evicted(given)

    def _evict(self, tree: RadixTree, num: int, /, *, recurrent: bool) -> list[Cut]:
        return evict(tree, num, recurrent=recurrent, outlook=self._ledger.curve.outlook(self._num_ends))

    def _num_ends(self) -> int:
        """Conversations that could go on from where they ended."""
        if not self.is_recurrent:
            return num_whole_ends(self._tree)
        snapshots = {node for node in self._tree.nodes() if node.snapshot is not None}
        return len(snapshots - {node.parent.deepest_snapshot() for node in snapshots if node.parent is not None})

    def _free_live(self, runs: PositionRanges) -> None:
        self._pool.free(runs)
        self._live -= count(runs)

    def _has_snapshot(self, node: RadixNode, num_tokens: int) -> bool:
        return any(each.end == num_tokens and each.snapshot is not None for each in upwards(node))


def _let_go(given: Sequence[Cut]) -> None:
    del given
