"""What the cache writes down: counts, why prompts missed, what was evicted, when conversations come back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from agentform._util.lru import BoundedDict
from agentform.runtime.cache.eviction import Cut
from agentform.runtime.cache.handle import Lease
from agentform.runtime.cache.miss_reasons import Evicted, Miss, explain
from agentform.runtime.cache.radix_tree import Match, RadixNode, upwards
from agentform.runtime.cache.return_curve import ReturnCurve
from agentform.runtime.cache.return_times import ReturnTimes
from agentform.runtime.cache.statistics import ConversationStatistics
from agentform.runtime.cache.working_set import ReuseDistances

__all__ = ["Counters", "Ledger", "Tally"]

_ENDS = 1024
_TALLIES = 256


@dataclass(frozen=True, kw_only=True)
class _Pin:
    nodes: tuple[RadixNode, ...]
    until: float


class Ledger:
    """Knows nothing of positions; the counts are read by any thread."""

    def __init__(self) -> None:
        self.counters = Counters()
        self._evicted = Evicted()
        self._returns = ReturnTimes()
        self.reuse = ReuseDistances()
        self.curve = ReturnCurve()
        self._pins: dict[str, _Pin] = {}
        self._ends: BoundedDict[str, RadixNode] = BoundedDict(_ENDS, dropped=lambda name, _: self._forget_pin(name))

    def request(self, lease: Lease, ids: Sequence[int], match: Match, usable: int, *, recurrent: bool) -> None:
        """A request was admitted; gives its lease the reason of its miss."""
        miss = self._explain(lease, ids, match, usable)
        tallies = [self.counters.total]
        if lease.conversation is not None:
            tallies.append(self.counters.conversation(lease.conversation))
        for tally in tallies:
            tally.add(
                lookup=len(ids),
                hit=lease.start,
                matched=lease.num_matched,
                restored=lease.start if recurrent and not lease.is_live else 0,
                resumed=lease.start if lease.is_live else 0,
                refreshed=lease.refresh,
                miss=miss,
            )
        lease.miss = miss.text if miss is not None else None

    def came_back(self, conversation: str | None, now: float) -> None:
        """A request of the conversation came; its end need not be pinned any more."""
        if conversation is None:
            return
        self._returns.came_back(conversation, now)
        self.curve.used(conversation, self.reuse.use(conversation), now)
        pin = self._pins.pop(conversation, None)
        if pin is not None:
            for node in pin.nodes:
                if node.pinned_until == pin.until:  # else someone else wants it as well
                    node.pinned_until = 0.0

    def ended(self, node: RadixNode, conversation: str) -> None:
        """A request of the conversation ended at `node`."""
        self._ends[conversation] = node

    def left(self, conversation: str, now: float, label: str | None = None) -> None:
        """The conversation left where it ended, which is pinned for as long as it may stay away."""
        until = now + self._returns.left(conversation, now, label)
        end = self._ends.get(conversation)
        if end is None:
            return
        resumed = end.deepest_snapshot() or end
        if (earlier := self._pins.get(conversation)) is not None:
            until = max(until, earlier.until)
        for node in (end, resumed):
            node.pinned_until = max(node.pinned_until, until)
        self._pins[conversation] = _Pin(nodes=(end, resumed), until=until)

    def turn_ended(self, conversation: str, now: float) -> None:
        """A conversation ended its turn where its last request ended."""
        self.left(conversation, now)
        end = self._ends.get(conversation)
        assert end is not None, "a turn that ended without a request"
        self.counters.conversation(conversation).last_length = end.end

    def evicted(self, given: Cut) -> None:
        """Something was given up."""
        if given.num_tokens:
            self.counters.evicted_tokens += given.num_tokens
            self._evicted.remember(given.path[: len(given.path) - given.num_tokens + 1])
        else:
            self.counters.evicted_snapshots += 1
            self._evicted.remember(given.path)

    def _forget_pin(self, conversation: str) -> None:
        self._pins.pop(conversation, None)

    def _explain(self, lease: Lease, ids: Sequence[int], match: Match, usable: int) -> Miss | None:
        start, name = lease.start, lease.conversation
        above = [node for node in upwards(match.node) if node.end > start] if start < match.num_tokens else []
        return explain(
            ids,
            usable=usable,
            matched=match.num_tokens,
            start=start,
            branches=bool(match.node.children),
            before=self.counters.conversation(name).last_length if name is not None else 0,
            evicted=self._evicted,
            snapshot_evicted=any(node.path() in self._evicted for node in above),
        )


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
        self._conversations: BoundedDict[str, Tally] = BoundedDict(_TALLIES)

    def conversation(self, name: str) -> Tally:
        """The tally of one conversation, new if need be; the one unused for longest makes room."""
        return self._conversations.setdefault(name, Tally())

    def conversations(self) -> dict[str, ConversationStatistics]:
        """All tallies that are remembered."""
        return {name: tally.statistics() for name, tally in self._conversations.items()}
