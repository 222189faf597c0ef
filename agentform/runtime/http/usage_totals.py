"""What an engine in front of a server knows of its prefix cache: what the replies said."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from agentform._util.lru import BoundedDict
from agentform.messages import Usage
from agentform.runtime.cache.statistics import CacheStatistics, ConversationStatistics
from agentform.runtime.cache.working_set import ReuseDistances

__all__ = ["UsageTotals"]

_CONVERSATIONS = 1024
_PAGE_TOKENS = 64
"""Servers share whole pages; what is missing of one was not lost."""


@dataclass(frozen=True, kw_only=True)
class _LastPrompt:
    """Of a conversation."""

    num_tokens: int
    hash: int


class UsageTotals:
    """Adds up usage; safe to use from several threads."""

    def __init__(self, *, capacity_tokens: int = 0) -> None:
        self._lock = threading.Lock()
        self._total = CacheStatistics(capacity_tokens=capacity_tokens)
        self._conversations: BoundedDict[str, ConversationStatistics] = BoundedDict(_CONVERSATIONS)
        self._last: BoundedDict[str, _LastPrompt] = BoundedDict(_CONVERSATIONS)
        self._misses = Counter[str]()
        self._reuse = ReuseDistances()

    def add(self, usage: Usage, conversation: str | None, prompt: Sequence[int] = ()) -> None:
        """Count one request; prompts of which a server did not say what was cached were not looked up.

        With the ids of the prompt it is told apart whether what a conversation had before was rewritten or is gone.
        """
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
            miss = self._miss(usage, conversation, prompt) if looked_up else None
            self._misses.update([miss] if miss is not None else [])
            if conversation is not None:
                self._reuse.use(conversation)
                self._count_conversation(conversation, looked_up, hit, miss)

    def statistics(self) -> CacheStatistics:
        """A snapshot. What a server keeps to itself (evictions, residents) stays 0."""
        with self._lock:
            return replace(
                self._total,
                misses=dict(self._misses),
                working_set=self._reuse.working_set(),
                conversations=dict(self._conversations.items()),
            )

    def _miss(self, usage: Usage, conversation: str | None, prompt: Sequence[int]) -> str | None:
        """Why more than a page of the prompt was computed, as far as it can be known from here."""
        cached = usage.cached_tokens or 0
        last = self._last.get(conversation) if conversation is not None else None
        if conversation is not None:
            self._last[conversation] = _LastPrompt(num_tokens=usage.prompt_tokens, hash=hash(tuple(prompt)))
        if usage.prompt_tokens - cached <= _PAGE_TOKENS:
            return None
        if last is not None and cached + _PAGE_TOKENS < last.num_tokens:
            is_rewritten = hash(tuple(prompt[: last.num_tokens])) != last.hash
            return "lost" if not prompt else "rewritten" if is_rewritten else "evicted"
        return "new" if cached else "cold"

    def _count_conversation(self, name: str, looked_up: int, hit: int, miss: str | None) -> None:
        known = self._conversations.get(name) or ConversationStatistics()
        self._conversations[name] = replace(
            known,
            requests=known.requests + 1,
            lookup_tokens=known.lookup_tokens + looked_up,
            hit_tokens=known.hit_tokens + hit,
            misses=Counter(known.misses) + Counter([miss] if miss is not None else []),
        )
