"""How likely what was used last at some time is used again soon."""

from __future__ import annotations

import math
from dataclasses import dataclass

__all__ = ["RECENCY", "Outlook"]


@dataclass(frozen=True, kw_only=True)
class Outlook:
    """Two ways to come back, and the share of returns that each is expected to have.

    *Soon*: the chance falls with the third power of age. The power was measured (`python -m benchmarks traces`): with 1
    old conversations stay too long, from 2 to 4 little changes. *Round*: conversations come back one after the other,
    the one used last after all others. What was used longest ago is the next to come then, and worth most per second
    of waiting; what was used last is worth least.
    """

    soon: float = 1.0
    """Share of returns that come soon; the others come round."""
    round_since: float = -math.inf
    """What was used last before this time is not expected to come round any more."""
    pause_s: float = 1.0
    """Seconds from one use to the next, as those that come round are told apart by; 1 at most."""
    goes_back: bool = False
    """Whether conversations are taken up again before their end, as when a message is edited."""

    def chance(self, last_used: float, now: float) -> float:
        """Expected uses per second of waiting; only the order of these numbers means anything."""
        age = max(0.0, now - last_used)
        expected = self.soon / (age + 1) ** 3
        if self.soon < 1 and last_used >= self.round_since:
            expected += (1 - self.soon) / ((last_used - self.round_since) / self.pause_s + 1)
        return expected


RECENCY = Outlook()
"""What was used last is used again first."""
