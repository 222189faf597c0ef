"""What the prefix cache did, in tokens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from agentform.runtime.cache.working_set import WorkingSet

__all__ = ["CacheStatistics", "ConversationStatistics", "TierStatistics"]


@dataclass(frozen=True, kw_only=True)
class ConversationStatistics:
    """Counters of one conversation id since the engine started."""

    requests: int = 0
    lookup_tokens: int = 0
    hit_tokens: int = 0
    replayed_tokens: int = 0
    misses: Mapping[str, int] = field(default_factory=dict[str, int])


@dataclass(frozen=True, kw_only=True)
class TierStatistics:
    """What one tier holds now, and what came from it since the engine started."""

    entries: int = 0
    """Sequences; not counted for the device, which holds a tree."""
    tokens: int = 0
    """Whose KV is held; slower tiers hold what sequences share once for each of them."""
    snapshots: int = 0
    used_bytes: int = 0
    limit_bytes: int = 0
    hits: int = 0
    """Prompts that something was fetched for."""
    fetched_tokens: int = 0
    """Tokens that came to the device."""


@dataclass(frozen=True, kw_only=True)
class CacheStatistics:
    """Counters since the engine started; sizes as they are now."""

    requests: int = 0
    lookup_tokens: int = 0
    """Prompt tokens looked up."""
    hit_tokens: int = 0
    """Prompt tokens found and reused."""
    matched_tokens: int = 0
    """Prompt tokens whose KV was found; more than `hit_tokens` where a recurrent state was missing."""
    restored_tokens: int = 0
    """Part of `hit_tokens` that came through a recurrent-state snapshot."""
    resumed_tokens: int = 0
    """Part of `hit_tokens` that came from a recurrent state that was still live in its slot."""
    replayed_tokens: int = 0
    """Prompt tokens whose KV was there and which ran again to rebuild a recurrent state."""
    refreshed_tokens: int = 0
    """Part of `replayed_tokens` that ran again to warm up what a snapshot does not hold."""
    computed_tokens: int = 0
    """Tokens that went through the model: prompts, branches and completions."""
    misses: Mapping[str, int] = field(default_factory=dict[str, int])
    """Requests that were not fully cached, by reason."""
    evicted_tokens: int = 0
    evicted_snapshots: int = 0
    declined_snapshots: int = 0
    """Snapshots that were not taken because there was no room for them."""
    resident_tokens: int = 0
    """Token positions held by the radix tree now."""
    resident_snapshots: int = 0
    snapshot_positions: int = 0
    """Positions that one snapshot takes; 0 for a model without recurrent layers."""
    snapshot_bytes: int = 0
    """Bytes that the codec needs for one snapshot; its positions may hold a little more."""
    codec: str = ""
    """Name of the snapshot codec; empty for a model without recurrent layers."""
    capacity_tokens: int = 0
    """Positions that exist, for tokens and snapshots together."""
    live_tokens: int = 0
    """Positions held by running requests and not (yet) in the tree."""
    position_bytes: int = 0
    budget_bytes: int = 0
    working_set: WorkingSet = field(default_factory=WorkingSet)
    """How conversations came back, see `agentform cache advise`."""
    tiers: Mapping[str, TierStatistics] = field(default_factory=dict[str, TierStatistics])
    """"device", and "host" and "disk" where there are any."""
    conversations: Mapping[str, ConversationStatistics] = field(default_factory=dict[str, ConversationStatistics])
    """By conversation id, those used last."""

    @property
    def hit_rate(self) -> float | None:
        """Reused share of the tokens looked up; `None` before the first request."""
        return self.hit_tokens / self.lookup_tokens if self.lookup_tokens else None
