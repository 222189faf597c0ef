"""Entries in the host's memory, what was used last staying longest."""

from __future__ import annotations

from collections.abc import Sequence

from agentform._util.lru import BoundedDict
from agentform._util.prefixes import best_prefix
from agentform.runtime.cache.statistics import TierStatistics
from agentform.runtime.cache.tiers.entry_file import Entry, name_of

__all__ = ["HostIndex"]

_ID_BYTES = 4


class HostIndex:
    """Entries of one engine. What does not fit any more is handed to whoever writes the next one."""

    def __init__(self, *, whole: bool, limit_bytes: int) -> None:
        """`whole`: an entry helps only a prompt that it is all of the beginning of, as recurrent states do."""
        self._whole = whole
        self._limit = limit_bytes
        self._left: list[Entry] = []
        self._entries: BoundedDict[str, Entry] = BoundedDict(
            limit_bytes, weight=lambda _, entry: _size(entry), dropped=lambda _, entry: self._left.append(entry)
        )

    def best(self, ids: Sequence[int], usable: int) -> tuple[int, str | None]:
        """How many of `ids[:usable]` an entry can bring, and its name."""
        return best_prefix(
            ((name, entry.ids) for name, entry in self._entries.items()), ids[:usable], whole=self._whole
        )

    def read(self, name: str) -> Entry | None:
        """An entry, which counts as a use."""
        return self._entries.use(name)

    def covers(self, ids: tuple[int, ...], *, exactly: bool) -> bool:
        """Whether an entry begins with all of `ids`, or is of just these."""
        return any(
            len(entry.ids) == len(ids) if exactly else True
            for _, entry in self._entries.items()
            if entry.ids[: len(ids)] == ids
        )

    def write(self, entry: Entry) -> list[Entry]:
        """Keep an entry; returns those that there is no room for, perhaps `entry` itself."""
        if not self._whole:
            for name in [n for n, held in self._entries.items() if entry.ids[: len(held.ids)] == held.ids]:
                self.drop(name)
        self._entries[name_of(entry.guard, entry.ids)] = entry
        left, self._left = self._left, []
        return left

    def drop(self, name: str) -> None:
        """Forget an entry; harmless if it is not there."""
        self._entries.pop(name)

    def statistics(self) -> TierStatistics:
        """Sizes as they are now; may be called from any thread."""
        held = [entry for _, entry in self._entries.items()]
        return TierStatistics(
            entries=len(held),
            tokens=sum(len(entry.ids) for entry in held),
            snapshots=sum(bool(entry.snapshot) for entry in held),
            used_bytes=self._entries.total,
            limit_bytes=self._limit,
        )

    def integrity(self) -> None:
        """Assert that the bytes add up and that every entry is what its name says."""
        sizes = [_size(entry) for _, entry in self._entries.items()]
        assert self._entries.total == sum(sizes) <= self._limit, "host bytes are off"
        for name, entry in self._entries.items():
            assert name == name_of(entry.guard, entry.ids), "an entry under another's name"
            assert bool(entry.snapshot) == self._whole, "an entry that cannot be resumed from"
            assert len(entry.kv) % len(entry.ids) == 0, "an entry whose KV does not fit its tokens"


def _size(entry: Entry) -> int:
    return len(entry.ids) * _ID_BYTES + len(entry.kv) + len(entry.snapshot)
