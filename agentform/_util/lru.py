"""A dictionary that stays within a limit: what was not used for longest goes first."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

__all__ = ["BoundedDict"]

K = TypeVar("K")
V = TypeVar("V")


class BoundedDict(Generic[K, V]):
    """Entries in the order of their last use. Not thread-safe, but `items` may be read from any thread."""

    def __init__(
        self,
        limit: int,
        *,
        weight: Callable[[K, V], int] | None = None,
        dropped: Callable[[K, V], None] | None = None,
    ) -> None:
        """At most `limit` entries, or entries whose `weight`s add up to at most that.

        `dropped` is told of each entry that had to go, which may be the one just set if it alone is too heavy; not of
        what is replaced or popped.
        """
        self._limit = limit
        self._weight = weight
        self._dropped = dropped
        self._entries: OrderedDict[K, V] = OrderedDict()
        self._total = 0

    @property
    def total(self) -> int:
        """The weights of all entries, or their number."""
        return self._total

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: K) -> bool:
        return key in self._entries

    def __setitem__(self, key: K, value: V) -> None:
        """Set an entry, which counts as a use."""
        self.pop(key)
        self._entries[key] = value
        self._total += self._weight_of(key, value)
        while self._total > self._limit:
            key, value = self._entries.popitem(last=False)
            self._total -= self._weight_of(key, value)
            if self._dropped is not None:
                self._dropped(key, value)

    def get(self, key: K) -> V | None:
        """The value, if there is one; no use."""
        return self._entries.get(key)

    def use(self, key: K) -> V | None:
        """The value, if there is one, which counts as a use."""
        if key in self._entries:
            self._entries.move_to_end(key)
        return self._entries.get(key)

    def setdefault(self, key: K, default: V) -> V:
        """The value, `default` if there is none yet, which counts as a use; the limit must leave room for it."""
        if key not in self._entries:
            self[key] = default
        else:
            self._entries.move_to_end(key)
        return self._entries[key]

    def pop(self, key: K) -> V | None:
        """Take an entry out, if there is one."""
        if key not in self._entries:
            return None
        value = self._entries.pop(key)
        self._total -= self._weight_of(key, value)
        return value

    def items(self) -> list[tuple[K, V]]:
        """All entries as they are now, the one used last at the end."""
        return list(self._entries.items())

    def _weight_of(self, key: K, value: V) -> int:
        return 1 if self._weight is None else self._weight(key, value)
