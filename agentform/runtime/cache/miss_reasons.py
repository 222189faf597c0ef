"""Why a prompt was not fully cached, in words and as a key for counters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agentform._util.lru import BoundedDict

__all__ = ["Evicted", "Miss", "explain"]

_REMEMBERED = 4096


@dataclass(frozen=True, kw_only=True)
class Miss:
    """`kind` is one of few words for counting, `text` says where."""

    kind: str
    text: str


class Evicted:
    """Remembers, by hash, prefixes whose last token or snapshot was evicted; the oldest are forgotten first."""

    def __init__(self) -> None:
        self._hashes: BoundedDict[int, None] = BoundedDict(_REMEMBERED)

    def remember(self, prefix: tuple[int, ...]) -> None:
        """Note that the last token of `prefix`, or the snapshot after it, is gone."""
        self._hashes[hash(prefix)] = None

    def __contains__(self, prefix: tuple[int, ...]) -> bool:
        return hash(prefix) in self._hashes


def explain(
    ids: Sequence[int],
    *,
    usable: int,
    matched: int,
    start: int,
    branches: bool,
    before: int,
    evicted: Evicted,
    snapshot_evicted: bool = False,
) -> Miss | None:
    """Why a request starts at `start` of its `ids`; `None` if only its last token is computed.

    ::

        ids    [0 ............ start ............ matched ............ usable ..]
                 restored        known, no state     not known

    `branches`: other sequences go on at `matched`. `before`: length of what the same conversation had at its last
    request, 0 for none. `snapshot_evicted`: a snapshot in `(start, matched]` was there once.
    """
    if start >= min(usable, len(ids) - 1):
        return None
    if start < matched:
        return Miss(kind="evicted", text="evicted") if snapshot_evicted else _no_snapshot(start, matched)
    if tuple(ids[: matched + 1]) in evicted:
        return Miss(kind="evicted", text="evicted")
    if matched < min(before, len(ids)):
        return Miss(kind="rewritten", text=f"history rewritten at token {matched}")
    if not matched:
        return Miss(kind="cold", text="cold")
    if branches:
        return Miss(kind="diverged", text=f"diverged at token {matched}")
    return Miss(kind="new", text=f"new after token {matched}")


def _no_snapshot(start: int, matched: int) -> Miss:
    where = f"; restored at {start}" if start else ""
    return Miss(kind="no snapshot", text=f"no snapshot at or below token {matched}{where}")
