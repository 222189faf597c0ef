"""What an engine in front of a server knows of its prefix cache: what the replies said."""

from __future__ import annotations

import threading
from dataclasses import replace

from agentform._util.lru import BoundedDict
from agentform.messages import Usage
from agentform.runtime.cache.statistics import CacheStatistics, ConversationStatistics

__all__ = ["UsageTotals"]

_CONVERSATIONS = 1024


class UsageTotals:
    """Adds up usage; safe to use from several threads."""

    def __init__(self, *, capacity_tokens: int = 0) -> None:
        self._lock = threading.Lock()
        self._total = CacheStatistics(capacity_tokens=capacity_tokens)
        self._conversations: BoundedDict[str, ConversationStatistics] = BoundedDict(_CONVERSATIONS)

    def add(self, usage: Usage, conversation: str | None) -> None:
        """Count one request; prompts of which a server did not say what was cached were not looked up."""
        looked_up = usage.prompt_tokens if usage.cached_tokens is not None else 0
        hit = usage.cached_tokens or 0
        with self._lock:
            self._total = replace(
                self._total,
                requests=self._total.requests + 1,
                lookup_tokens=self._total.lookup_tokens + looked_up,
                hit_tokens=self._total.hit_tokens + hit,
                matched_tokens=self._total.matched_tokens + hit,
                computed_tokens=self._total.computed_tokens + (usage.computed_tokens or 0),
            )
            if conversation is not None:
                self._count_conversation(conversation, looked_up, hit)

    def statistics(self) -> CacheStatistics:
        """A snapshot. What a server keeps to itself (evictions, residents, reasons for misses) stays 0 or empty."""
        with self._lock:
            return replace(self._total, conversations=dict(self._conversations.items()))

    def _count_conversation(self, name: str, looked_up: int, hit: int) -> None:
        known = self._conversations.get(name) or ConversationStatistics()
        self._conversations[name] = replace(
            known,
            requests=known.requests + 1,
            lookup_tokens=known.lookup_tokens + looked_up,
            hit_tokens=known.hit_tokens + hit,
        )
