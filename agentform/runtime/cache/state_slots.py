"""The slots of live recurrent states that no request holds, and what their last requests left in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["FreeSlots", "StateSlot"]


@dataclass(frozen=True, kw_only=True)
class StateSlot:
    """A slot that was taken."""

    index: int
    num_tokens: int = 0
    """So many tokens of the sequence that it was taken for are in its state already."""


class FreeSlots:
    """Slots without a state first, then those that were left longest ago."""

    def __init__(self, num: int) -> None:
        self._left: dict[int, tuple[int, ...]] = dict.fromkeys(range(num), ())

    def __bool__(self) -> bool:
        return bool(self._left)

    def take(self, ids: Sequence[int], *, after: int, upto: int) -> StateSlot | None:
        """The slot whose state is that of the longest beginning of `ids`, of more than `after` and at most `upto`

        tokens; else any. `None` if there is none.
        """
        if not self._left:
            return None
        best = max(self._left, key=lambda slot: self._score(slot, ids, after, upto))
        num = self._score(best, ids, after, upto)
        if num:
            del self._left[best]
            return StateSlot(index=best, num_tokens=num)
        index = next((slot for slot, left in self._left.items() if not left), next(iter(self._left)))
        del self._left[index]
        return StateSlot(index=index)

    def give_back(self, index: int, live: Sequence[int]) -> None:
        """`live`: the tokens whose state it holds; none if that is undefined or not worth keeping."""
        self._left[index] = tuple(live)

    def _score(self, slot: int, ids: Sequence[int], after: int, upto: int) -> int:
        left = self._left[slot]
        fits = after < len(left) <= upto and tuple(ids[: len(left)]) == left
        return len(left) if fits else 0
