"""When a request to a server is sent again, and how long to wait before."""

from __future__ import annotations

import email.utils
import random
import time
from collections.abc import Mapping
from dataclasses import dataclass

from agentform.errors import InvalidRequest

__all__ = ["RetryPolicy", "retry_after_s"]


@dataclass(frozen=True, kw_only=True)
class RetryPolicy:
    """Exponential backoff with jitter, for as long as nothing of a reply was given on.

    A request that was lost with its connection, or that the server or router had no room for (429, 502, 503, 504), is
    sent again, at most `retries` times and never beyond its deadline. The wait before try n is drawn between half of
    and all of `first_wait_s * 2 ** (n - 1)`, at most `longest_wait_s`; a server's Retry-After is a lower bound, and
    one of more than `longest_retry_after_s` ends it.
    """

    retries: int = 6
    first_wait_s: float = 0.25
    longest_wait_s: float = 8.0
    longest_retry_after_s: float = 60.0

    def __post_init__(self) -> None:
        if self.retries < 0 or min(self.first_wait_s, self.longest_wait_s, self.longest_retry_after_s) < 0:
            raise InvalidRequest(f"nothing of a retry policy may be negative: {self}")

    def wait_s(self, num_failed: int, asked_s: float | None = None, *, draw: float | None = None) -> float | None:
        """Seconds to wait after so many failed tries, or `None` to give up.

        `asked_s` is what the server said, `draw` a number in [0, 1) instead of a random one.
        """
        if num_failed > self.retries or (asked_s or 0) > self.longest_retry_after_s:
            return None
        longest = min(self.first_wait_s * 2 ** min(num_failed - 1, 30), self.longest_wait_s)
        share = random.random() if draw is None else draw
        return max(longest * (1 + share) / 2, asked_s or 0)


def retry_after_s(headers: Mapping[str, str], *, now: float | None = None) -> float | None:
    """Seconds from a Retry-After header, which holds seconds or a date; `None` where there is none to be read.

    `now` is the time since the epoch.
    """
    text = headers.get("retry-after", "").strip()
    if text.isascii() and text.isdigit():
        return float(text)
    try:
        at = email.utils.parsedate_to_datetime(text)
    except ValueError:
        return None
    return max(0.0, at.timestamp() - (time.time() if now is None else now))
