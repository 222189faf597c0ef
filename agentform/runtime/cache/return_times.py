"""How long conversations stay away, and so for how long their ends are worth a pin."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from agentform._util.lru import BoundedDict

__all__ = ["ReturnTimes"]

_REMEMBERED = 64
_LABELS = 256
_CONVERSATIONS = 1024
_FIRST_GUESS_S = 10.0
_LONGEST_PIN_S = 120.0
_QUANTILE = 0.9
_PRIOR_WEIGHT = 1.0
"""All pauses with a label together count as so many of one label's own."""


class ReturnTimes:
    """Pauses between the moment a conversation leaves and its next request, by what it waits for.

    A label is any name, such as a tool's; `None` is the end of a turn that says nothing.
    """

    def __init__(self) -> None:
        self._left: BoundedDict[str, dict[str | None, float]] = BoundedDict(_CONVERSATIONS)
        self._pauses: BoundedDict[str | None, deque[float]] = BoundedDict(_LABELS)
        self._labelled: deque[float] = deque(maxlen=_REMEMBERED)

    def left(self, conversation: str, now: float, label: str | None = None) -> float:
        """A conversation leaves at `now`; returns for how many seconds a return is worth waiting for.

        It may leave for several labels at once. What it waits for by name is no end of a turn that says nothing.
        """
        away = self._left.setdefault(conversation, {})
        if label is not None:
            away.pop(None, None)
        away[label] = now
        return self.limit_s(label)

    def came_back(self, conversation: str, now: float) -> None:
        """A request of the conversation came at `now`."""
        for label, left in (self._left.pop(conversation) or {}).items():
            pause = max(0.0, now - left)
            self._pauses.setdefault(label, deque(maxlen=_REMEMBERED)).append(pause)
            if label is not None:
                self._labelled.append(pause)

    def limit_s(self, label: str | None = None) -> float:
        """The time by which nine of ten returned, at most two minutes; a guess before anyone did.

        Of a label with a short history the pauses of all labels count too.
        """
        prior = self._labelled if label is not None else ()
        limit = _quantile(self._pauses.get(label) or (), prior)
        return _FIRST_GUESS_S if limit is None else min(_LONGEST_PIN_S, limit)


def _quantile(own: Sequence[float], prior: Sequence[float]) -> float | None:
    """The least value that `_QUANTILE` of the weight lies at or below; `None` without values."""
    weighted = [(value, 1.0) for value in own] + [(value, _PRIOR_WEIGHT / len(prior)) for value in prior]
    weighted.sort()
    wanted, reached = _QUANTILE * sum(weight for _, weight in weighted), 0.0
    for value, weight in weighted:
        reached += weight
        if reached >= wanted - 1e-9:
            return value
    return None
