"""The cache's running counts, in all and per conversation."""

from __future__ import annotations

from collections import Counter, OrderedDict
from dataclasses import dataclass, field

from agentform.runtime.cache.miss_reasons import Miss
from agentform.runtime.cache.statistics import ConversationStatistics

__all__ = ["Counters", "Tally"]

_CONVERSATIONS = 256


@dataclass(kw_only=True)
class Tally:
    """Counts of requests and of their prompts' tokens."""

    requests: int = 0
    lookup: int = 0
    hit: int = 0
    matched: int = 0
    restored: int = 0
    resumed: int = 0
    refreshed: int = 0
    misses: Counter[str] = field(default_factory=Counter[str])
    last_length: int = 0
    """Tokens of the last request, prompt and completion."""

    def add(
        self, *, lookup: int, hit: int, matched: int, restored: int, resumed: int, refreshed: int, miss: Miss | None
    ) -> None:
        """Count one request; `hit` of its prompt's tokens need not be computed, `matched` have KV."""
        self.requests += 1
        self.lookup += lookup
        self.hit += hit
        self.matched += matched
        self.restored += restored
        self.resumed += resumed
        self.refreshed += refreshed
        if miss is not None:
            self.misses[miss.kind] += 1

    @property
    def replayed(self) -> int:
        """Tokens with KV that ran again."""
        return self.matched - self.hit + self.refreshed

    def statistics(self) -> ConversationStatistics:
        """As a frozen value."""
        return ConversationStatistics(
            requests=self.requests,
            lookup_tokens=self.lookup,
            hit_tokens=self.hit,
            replayed_tokens=self.replayed,
            misses=dict(self.misses),
        )


class Counters:
    """Whole-engine counts and a table of the conversations used last."""

    def __init__(self) -> None:
        self.total = Tally()
        self.computed = self.evicted_tokens = self.evicted_snapshots = self.declined_snapshots = 0
        self._conversations: OrderedDict[str, Tally] = OrderedDict()

    def conversation(self, name: str) -> Tally:
        """The tally of one conversation, new if need be; the one unused for longest makes room."""
        tally = self._conversations.setdefault(name, Tally())
        self._conversations.move_to_end(name)
        while len(self._conversations) > _CONVERSATIONS:
            self._conversations.popitem(last=False)
        return tally

    def conversations(self) -> dict[str, ConversationStatistics]:
        """All tallies that are remembered."""
        return {name: tally.statistics() for name, tally in list(self._conversations.items())}
