"""Conversations on disk: ends of turns are written when the engine is idle, and read back when a prompt needs them."""

from __future__ import annotations

from collections import OrderedDict

from agentform.runtime.cache.disk_index import DiskIndex
from agentform.runtime.cache.entry_file import Entry
from agentform.runtime.cache.prefix_cache import PrefixCache
from agentform.runtime.cache.runs import count
from agentform.runtime.torch.model_runner import ModelRunner

__all__ = ["DiskTier"]

_LEAST_GAIN_TOKENS = 32
"""So few tokens are computed sooner than read."""


class DiskTier:
    """Owned by the worker thread."""

    def __init__(self, index: DiskIndex, cache: PrefixCache, runner: ModelRunner, *, guard: str) -> None:
        self._index = index
        self._cache = cache
        self._runner = runner
        self._guard = guard
        self._unwritten: OrderedDict[str, tuple[int, ...]] = OrderedDict()
        self._written: dict[str, str] = {}

    def turn_ended(self, ids: tuple[int, ...], conversation: str | None) -> None:
        """Remember the end of a turn for `write_one`; a later end of the same conversation takes its place."""
        key = conversation if conversation is not None else f"#{hash(ids)}"
        self._unwritten[key] = ids
        self._unwritten.move_to_end(key)

    def write_one(self) -> bool:
        """Write the turn that has waited longest; false if none waits. Never raises for a disk that is full."""
        if not self._unwritten:
            return False
        key, ids = self._unwritten.popitem(last=False)
        _, num, runs, snapshot = self._cache.peek(ids)
        if num >= _LEAST_GAIN_TOKENS:
            kv, state = self._runner.export(runs, snapshot)
            entry = Entry(guard=self._guard, ids=ids[:num], kv=kv, snapshot=state)
            name = self._index.write(entry, instead=self._written.get(key))
            if name is not None:
                self._written[key] = name
        return True

    def write_all(self) -> None:
        """Write every turn that waits."""
        while self.write_one():
            pass

    def fetch(self, ids: tuple[int, ...], usable: int) -> int:
        """Bring what disk has of a prompt into the cache, if it is worth it; returns the tokens that came."""
        num, name = self._index.best(ids, usable)
        if name is None or num < self._cache.peek(ids[:usable])[1] + _LEAST_GAIN_TOKENS:
            return 0
        entry = self._index.read(name)
        if entry is None or len(ids) > self._cache.capacity:
            return 0
        return self._adopt(entry, num)

    def _adopt(self, entry: Entry, num: int) -> int:
        """A lease like a request's, but what it computes comes from the entry."""
        lease = self._cache.open(entry.ids[:num], usable=num, extra=0, is_request=False)
        if lease is None:
            return 0
        try:
            known = count(lease.runs)
            fresh = self._cache.grow(lease, num - known)
            room = self._cache.snapshot_room(lease, num) if entry.snapshot else None
            self._runner.adopt(fresh, entry.kv, len(entry.ids), skip=known, snapshot=room or (), state=entry.snapshot)
            self._cache.commit(lease, entry.ids[:num])
            if room is not None:
                self._cache.attach(lease, entry.ids[:num])
        finally:
            self._cache.close(lease)
        return num
