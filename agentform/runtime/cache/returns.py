"""How long conversations stay away between two turns, and so for how long their ends are worth a pin."""

from __future__ import annotations

from collections import OrderedDict, deque

__all__ = ["ReturnTimes"]

_REMEMBERED = 64
_CONVERSATIONS = 1024
_FIRST_GUESS_S = 10.0
_LONGEST_PIN_S = 120.0
_QUANTILE = 0.9


class ReturnTimes:
    """Pauses between the end of a turn and the next request of the same conversation, such as a tool's run time."""

    def __init__(self) -> None:
        self._left: OrderedDict[str, float] = OrderedDict()
        self._pauses: deque[float] = deque(maxlen=_REMEMBERED)

    def left(self, conversation: str, now: float) -> float:
        """A turn ended at `now`; returns for how many seconds a return is worth waiting for."""
        self._left[conversation] = now
        self._left.move_to_end(conversation)
        while len(self._left) > _CONVERSATIONS:
            self._left.popitem(last=False)
        return self.limit_s()

    def came_back(self, conversation: str, now: float) -> None:
        """A request of the conversation came at `now`."""
        left = self._left.pop(conversation, None)
        if left is not None:
            self._pauses.append(max(0.0, now - left))

    def limit_s(self) -> float:
        """The time by which nine of ten returned, at most two minutes; a guess before anyone did."""
        if not self._pauses:
            return _FIRST_GUESS_S
        ordered = sorted(self._pauses)
        return min(_LONGEST_PIN_S, ordered[int(_QUANTILE * (len(ordered) - 1))])
