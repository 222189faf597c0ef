"""What the cache writes down: counts, why prompts missed, what was evicted, when conversations come back."""

from __future__ import annotations

from collections.abc import Sequence

from agentform.runtime.cache.counters import Counters
from agentform.runtime.cache.eviction import Cut
from agentform.runtime.cache.lease import Lease
from agentform.runtime.cache.misses import Evicted, Miss, explain
from agentform.runtime.cache.radix_tree import Match, Node, upwards
from agentform.runtime.cache.returns import ReturnTimes
from agentform.runtime.cache.working_set import ReuseDistances

__all__ = ["Ledger"]


class Ledger:
    """Knows nothing of positions; the counts are read by any thread."""

    def __init__(self) -> None:
        self.counters = Counters()
        self._evicted = Evicted()
        self._returns = ReturnTimes()
        self.reuse = ReuseDistances()

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
        """A request of the conversation came."""
        if conversation is not None:
            self._returns.came_back(conversation, now)
            self.reuse.use(conversation)

    def turn_ended(self, node: Node, conversation: str, now: float) -> None:
        """A conversation ended its turn at the end of `node`, which is pinned for as long as it may stay away."""
        node.pinned_until = now + self._returns.left(conversation, now)
        self.counters.conversation(conversation).last_length = node.end

    def evicted(self, given: Cut) -> None:
        """Something was given up."""
        if given.num_tokens:
            self.counters.evicted_tokens += given.num_tokens
            self._evicted.remember(given.path[: len(given.path) - given.num_tokens + 1])
        else:
            self.counters.evicted_snapshots += 1
            self._evicted.remember(given.path)

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
