"""Where conversations go from the device, and come back from.

::

    device ──evicted──▶ host ──no room──▶ disk ◀──ends of turns, when idle── device
       ▲                  │                 │
       └── a prompt begins like an entry ───┘

An entry is a whole sequence: token ids, KV, and the snapshot after them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from agentform.errors import EngineError
from agentform.runtime.cache.eviction import Cut, spilled
from agentform.runtime.cache.prefix_cache import Lease, PrefixCache
from agentform.runtime.cache.ranges import PositionRanges, count
from agentform.runtime.cache.statistics import TierStatistics
from agentform.runtime.cache.tiers.disk import DiskIndex
from agentform.runtime.cache.tiers.entry_file import Entry
from agentform.runtime.cache.tiers.host import HostIndex

__all__ = ["StateMover", "Tiers"]

_LEAST_GAIN_TOKENS = 32
"""So few tokens are computed sooner than moved."""


@dataclass(kw_only=True)
class _Fetched:
    hits: int = 0
    tokens: int = 0


class StateMover(Protocol):
    """Copies what positions hold from the device to bytes and back."""

    def export(self, runs: PositionRanges, snapshot: PositionRanges) -> tuple[bytes, bytes]:
        """The KV in `runs` and the recurrent state in `snapshot` (`()` for none)."""
        ...

    def adopt(
        self, runs: PositionRanges, kv: bytes, num: int, *, skip: int, snapshot: PositionRanges, state: bytes
    ) -> None:
        """Put what `export` gave for `num` tokens, from token `skip` on, into `runs`, and its state into `snapshot`.

        Raises:
            EngineError, ValueError, RuntimeError, IndexError: it is of another model, or damaged.
        """
        ...


class Tiers:
    """Owned by the worker thread; `statistics` may be called from any."""

    def __init__(
        self,
        cache: PrefixCache,
        runner: StateMover,
        *,
        guard: str,
        host: HostIndex | None = None,
        disk: DiskIndex | None = None,
    ) -> None:
        """`guard` names what entries must be of to be looked at: model, codec and layout."""
        self._cache = cache
        self._runner = runner
        self._guard = guard
        self._host = host
        self._disk = disk
        self._unwritten: OrderedDict[str, tuple[int, ...]] = OrderedDict()
        self._written: dict[str, str] = {}
        self._fetched = {"host": _Fetched(), "disk": _Fetched()}
        if host is not None:
            cache.spill_to(self._spill)

    def turn_ended(self, ids: tuple[int, ...], conversation: str | None) -> None:
        """Remember the end of a turn for `write_one`; a later end of the same conversation takes its place."""
        if self._disk is None:
            return
        key = conversation if conversation is not None else f"#{hash(ids)}"
        self._unwritten[key] = ids
        self._unwritten.move_to_end(key)

    def write_one(self) -> bool:
        """Write the turn that has waited longest to disk; false if none waits. A disk that is full is no error."""
        if self._disk is None or not self._unwritten:
            return False
        key, ids = self._unwritten.popitem(last=False)
        entry = self._entry(ids)
        if entry is not None:
            name = self._disk.write(entry, instead=self._written.get(key))
            if name is not None:
                self._written[key] = name
        return True

    def fetch(self, ids: tuple[int, ...], usable: int) -> bool:
        """Bring what a tier has of a prompt to the device, if it is worth it; false if it cannot come yet."""
        known = self._cache.peek(ids[:usable])[1]
        found: list[tuple[int, str, str]] = []
        for tier, index in self._indexes().items():
            num, name = index.best(ids, usable)
            if name is not None and num >= known + _LEAST_GAIN_TOKENS:
                found.append((num, tier, name))
        for num, tier, name in sorted(found, key=lambda each: -each[0]):  # stable: host before disk
            lease = self._cache.open(ids[:num], usable=num, extra=0, is_request=False)
            if lease is None:
                return False
            try:
                if self._adopt(lease, tier, name, num):
                    return True
            finally:
                self._cache.close(lease)
        return True

    def statistics(self) -> dict[str, TierStatistics]:
        """By tier."""
        return {
            tier: replace(index.statistics(), hits=self._fetched[tier].hits, fetched_tokens=self._fetched[tier].tokens)
            for tier, index in self._indexes().items()
        }

    def integrity(self) -> None:
        """Assert the host tier's invariants."""
        if self._host is not None:
            self._host.integrity()

    def _indexes(self) -> Mapping[str, HostIndex | DiskIndex]:
        indexes = {"host": self._host, "disk": self._disk}
        return {tier: index for tier, index in indexes.items() if index is not None}

    def _entry(self, ids: tuple[int, ...]) -> Entry | None:
        """The end of a turn, from wherever it is by now."""
        _, num, runs, snapshot = self._cache.peek(ids)
        if self._host is not None:
            held, name = self._host.best(ids, len(ids))
            if name is not None and held > num:
                return self._host.read(name)
        return self._export(ids[:num], runs, snapshot) if num >= _LEAST_GAIN_TOKENS else None

    def _export(self, ids: tuple[int, ...], runs: PositionRanges, snapshot: PositionRanges) -> Entry:
        kv, state = self._runner.export(runs, snapshot)
        return Entry(guard=self._guard, ids=ids, kv=kv, snapshot=state)

    def _spill(self, given: Sequence[Cut]) -> None:
        """Keep what was evicted from the device, but for little and for what the host has."""
        assert self._host is not None
        recurrent = self._cache.is_recurrent
        for each in spilled(given, recurrent=recurrent):
            gain = len(each.ids) if recurrent else each.num_own
            if gain < _LEAST_GAIN_TOKENS or self._host.covers(each.ids, exactly=each.is_shared and recurrent):
                continue
            for left in self._host.write(self._export(each.ids, each.runs, each.snapshot)):
                if self._disk is not None:
                    self._disk.write(left)

    def _adopt(self, lease: Lease, tier: str, name: str, num: int) -> bool:
        """Copy an entry to what a lease holds; false if it turns out to be broken."""
        entry = self._indexes()[tier].read(name)
        if entry is None:
            return False
        room = self._cache.snapshot_room(lease, num) if entry.snapshot else ()
        if room is None:
            return True  # nothing could be resumed from
        known = count(lease.runs)
        fresh = self._cache.grow(lease, num - known)
        try:
            self._runner.adopt(fresh, entry.kv, len(entry.ids), skip=known, snapshot=room, state=entry.snapshot)
        except (EngineError, ValueError, RuntimeError, IndexError):  # whole, but of other sizes than this model's
            self._forget(tier, name)
            return False
        self._cache.commit(lease, entry.ids[:num])
        if room:
            self._cache.attach(lease, entry.ids[:num])
        self._fetched[tier].hits += 1
        self._fetched[tier].tokens += num - known
        if self._host is not None and num == len(entry.ids):
            self._host.drop(name)  # it comes back when it is evicted again
        return True

    def _forget(self, tier: str, name: str) -> None:
        """Drop an entry that is not of use to anybody."""
        if tier == "disk" and self._disk is not None:
            self._disk.refuse(name)
        elif self._host is not None:
            self._host.drop(name)
