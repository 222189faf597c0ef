"""What the prefix cache did, in tokens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["CacheStatistics"]


@dataclass(frozen=True, kw_only=True)
class CacheStatistics:
    """Counters since the engine started; sizes as they are now."""

    requests: int = 0
    lookup_tokens: int = 0
    """Prompt tokens looked up."""
    hit_tokens: int = 0
    """Prompt tokens found and reused."""
    computed_tokens: int = 0
    """Tokens that went through the model: prompts, branches and completions."""
    misses: Mapping[str, int] = field(default_factory=dict[str, int])
    """Requests that were not fully cached, by reason."""
    evicted_tokens: int = 0
    resident_tokens: int = 0
    """Token positions held by the radix tree now."""
    capacity_tokens: int = 0
    live_tokens: int = 0
    """Token positions held by running requests and not yet in the tree."""
    budget_bytes: int = 0

    @property
    def hit_rate(self) -> float | None:
        """Reused share of the tokens looked up; `None` before the first request."""
        return self.hit_tokens / self.lookup_tokens if self.lookup_tokens else None
