"""What the snapshot pool in SGLang's scheduler did, through a file.

The scheduler is another process, so its counters go into a small JSON file, replaced as a whole (`os.replace`), at most
`INTERVAL_S` after they changed. `read_snapshot_statistics` gives back what was written last.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from agentform._util.files import write_atomically
from agentform.errors import InvalidInput

__all__ = [
    "INTERVAL_S",
    "SnapshotPoolStatistics",
    "StatisticsFile",
    "read_snapshot_statistics",
    "write_snapshot_statistics",
]

INTERVAL_S = 0.5


@dataclass(frozen=True, kw_only=True)
class SnapshotPoolStatistics:
    """Counters since SGLang started; sizes as they are now."""

    codec: str
    """Digests of the decay parameters and of all precisions."""
    policy: str
    num_slots: int
    slot_bytes: int
    """Bytes of one snapshot."""
    live_slot_bytes: int
    """Bytes of the same state as the model runs it."""
    int8_slot_bytes: int
    """Bytes that SGLang's own int8 pool takes for it."""
    resident: int = 0
    """Snapshots held now."""
    stored: int = 0
    restored: int = 0
    restored_tokens: int = 0
    """Tokens that did not have to be computed because a snapshot was restored."""
    evicted: int = 0
    """Snapshots that gave way to others."""
    declined: int = 0
    """Snapshots that were not taken because requests in progress held all slots."""
    wrong_slots: int = 0
    """Slots that were not what they were taken for; at the first the scheduler stops rather than answer wrongly."""

    @property
    def pool_bytes(self) -> int:
        """Bytes of all slots."""
        return self.num_slots * self.slot_bytes


def read_snapshot_statistics(path: Path) -> SnapshotPoolStatistics | None:
    """What was written last; `None` where nothing was yet.

    Raises:
        InvalidInput: for a file of something else.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    try:
        found = json.loads(text)
        known = {each.name for each in fields(SnapshotPoolStatistics)}
        return SnapshotPoolStatistics(**{name: value for name, value in found.items() if name in known})
    except (ValueError, TypeError, AttributeError) as error:
        raise InvalidInput(f"{path} holds no statistics of a snapshot pool: {error}") from error


def write_snapshot_statistics(path: Path, statistics: SnapshotPoolStatistics) -> None:
    """Replace the file as a whole; a reader sees the old one or the new one."""
    write_atomically(path, json.dumps(asdict(statistics)), mode=0o666)


class StatisticsFile:
    """Writes what `read` returns whenever it changed, from a thread that ends with the process or at `close`."""

    def __init__(
        self, path: Path, read: Callable[[], SnapshotPoolStatistics], *, interval_s: float = INTERVAL_S
    ) -> None:
        self._path = path
        self._read = read
        self._interval_s = interval_s
        self._last: SnapshotPoolStatistics | None = None
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self.write()
        self._thread = threading.Thread(target=self._run, name="agentform-snapshot-statistics", daemon=True)
        self._thread.start()

    def write(self) -> None:
        """Write now, if anything changed."""
        with self._lock:
            now = self._read()
            if now != self._last:
                write_snapshot_statistics(self._path, now)
                self._last = now

    def close(self) -> None:
        """Write once more and stop."""
        self._closing.set()
        self._thread.join()
        self.write()

    def _run(self) -> None:
        while not self._closing.wait(self._interval_s):
            with suppress(OSError):  # a full disk is no reason to stop serving; the next round tries again
                self.write()
