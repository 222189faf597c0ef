"""Which entries a folder holds, and the one that helps a prompt most; several processes may share the folder."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from agentform._util.prefixes import best_prefix
from agentform.errors import EngineError
from agentform.runtime.cache.statistics import TierStatistics
from agentform.runtime.cache.tiers.entry_file import (
    PART_SUFFIX,
    SUFFIX,
    Entry,
    name_of,
    read_entry,
    read_header,
    write_entry,
)

__all__ = ["DiskIndex"]

_ABANDONED_S = 3600.0


@dataclass(frozen=True, kw_only=True)
class _DiskEntry:
    ids: tuple[int, ...]
    has_snapshot: bool
    num_bytes: int


class DiskIndex:
    """Entries of one guard. A file that cannot be read is removed, from the index and from disk."""

    def __init__(self, folder: Path, *, guard: str, whole: bool, limit_bytes: int) -> None:
        """`whole`: an entry helps only a prompt that it is all of the beginning of, as recurrent states do.

        At most `limit_bytes` of the folder are used by files of this guard; the oldest go first.

        Raises:
            OSError: the folder cannot be made or read.
        """
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._guard = guard
        self._whole = whole
        self._limit = limit_bytes
        self._held: dict[str, _DiskEntry] = {}
        self.num_refused = 0
        """Files that were not what they said, since the start."""
        self.num_failed = 0
        """Entries that could not be written."""
        self._sweep()
        for place in sorted(folder.glob("*" + SUFFIX)):
            self._look_at(place)

    def __len__(self) -> int:
        return len(self._held)

    def best(self, ids: Sequence[int], usable: int) -> tuple[int, str | None]:
        """How many of `ids[:usable]` an entry can bring, and its name."""
        return best_prefix(((name, held.ids) for name, held in self._held.items()), ids[:usable], whole=self._whole)

    def read(self, name: str) -> Entry | None:
        """An entry, or `None` if it is gone or broken; then it is not known any more."""
        place = self._folder / name
        try:
            entry = read_entry(place)
            if entry.guard != self._guard or name_of(entry.guard, entry.ids) != name:
                raise EngineError(f"{name} holds something else")
        except FileNotFoundError:
            self._held.pop(name, None)
            return None
        except (EngineError, OSError):
            self.refuse(place.name)
            return None
        with contextlib.suppress(OSError):
            place.touch()  # what is used stays longest
        return entry

    def write(self, entry: Entry, *, instead: str | None = None) -> str | None:
        """Keep an entry; `instead` is dropped once the new one stands. `None` if it could not be written."""
        name = name_of(entry.guard, entry.ids)
        if name in self._held and (self._folder / name).exists():
            return name
        try:
            place = write_entry(self._folder, entry)
            size = place.stat().st_size
        except OSError:
            self.num_failed += 1
            return None
        self._held[name] = _DiskEntry(ids=entry.ids, has_snapshot=bool(entry.snapshot), num_bytes=size)
        if instead is not None and instead != name:
            self._drop(instead)
        self._keep_limit(name)
        return name

    def statistics(self) -> TierStatistics:
        """Sizes as this process knows them; may be called from any thread."""
        held = list(self._held.values())
        return TierStatistics(
            entries=len(held),
            tokens=sum(len(each.ids) for each in held),
            snapshots=sum(each.has_snapshot for each in held),
            used_bytes=sum(each.num_bytes for each in held),
            limit_bytes=self._limit,
        )

    def _sweep(self) -> None:
        """Remove what a process left that was killed while it wrote; younger files may still be written."""
        for place in self._folder.glob(f".*{PART_SUFFIX}"):
            with contextlib.suppress(OSError):
                if time.time() - place.stat().st_mtime > _ABANDONED_S:
                    place.unlink()

    def _look_at(self, place: Path) -> None:
        try:
            header, ids = read_header(place)
            size = place.stat().st_size
        except FileNotFoundError:
            return
        except (EngineError, OSError):
            self.refuse(place.name)
            return
        if header.guard == self._guard:
            self._held[place.name] = _DiskEntry(ids=ids, has_snapshot=header.snapshot_bytes > 0, num_bytes=size)

    def refuse(self, name: str) -> None:
        """Drop an entry that is not what it says."""
        self.num_refused += 1
        self._drop(name)

    def _drop(self, name: str) -> None:
        self._held.pop(name, None)
        with contextlib.suppress(OSError):
            (self._folder / name).unlink(missing_ok=True)

    def _keep_limit(self, newest: str) -> None:
        sizes: list[tuple[float, str, int]] = []
        for name in list(self._held):
            try:
                facts = (self._folder / name).stat()
            except OSError:
                self._held.pop(name, None)
                continue
            sizes.append((facts.st_mtime, name, facts.st_size))
        total = sum(size for _, _, size in sizes)
        for _, name, size in sorted(sizes):
            if total <= self._limit or name == newest:
                break
            self._drop(name)
            total -= size
