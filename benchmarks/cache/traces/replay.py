"""Plays a trace through the real cache: blocks for tokens, no model."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from agentform.runtime.cache.handle import Lease
from agentform.runtime.cache.prefix_cache import PrefixCache
from agentform.runtime.cache.statistics import CacheStatistics
from benchmarks.cache.traces.policies import Policy
from benchmarks.cache.traces.sessions import Ask

__all__ = ["Model", "Outcome", "replay"]

_SLOTS = 1024


@dataclass(frozen=True, kw_only=True)
class Model:
    """What a model keeps."""

    name: str
    token_bytes: int
    snapshot_bytes: int


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What came of one trace, one policy and one budget."""

    prompt_tokens: int
    hit_tokens: int
    num_refused: int
    """Requests for which there was no room beside those that ran; they count as computed whole."""
    statistics: CacheStatistics

    @property
    def hit_rate(self) -> float:
        """Share of the prompts' tokens that need not be computed."""
        return self.hit_tokens / self.prompt_tokens


def replay(asks: Sequence[Ask], policy: Policy, model: Model, *, block: int, budget_bytes: int) -> Outcome:
    """Requests start and end in the order of the trace's times, whatever the cache does."""
    player = _Player(policy, model, block, budget_bytes)
    order = itertools.count()
    ends: list[tuple[float, int, Ask, Lease]] = []
    for ask in asks:
        while ends and ends[0][0] <= ask.start_s:
            player.end(*heapq.heappop(ends)[2:])
        lease = player.start(ask)
        if lease is not None:
            heapq.heappush(ends, (ask.end_s, next(order), ask, lease))
    return player.outcome()


class _Player:
    def __init__(self, policy: Policy, model: Model, block: int, budget_bytes: int) -> None:
        self._policy = policy
        self._block = block
        self._now = 0.0
        each = model.token_bytes * block
        self._cache = PrefixCache(
            max(1, budget_bytes // each),
            snapshot_positions=-(-model.snapshot_bytes // each),
            num_slots=_SLOTS if model.snapshot_bytes else 0,
            give_up=policy.give_up,
            clock=lambda: self._now,
        )
        self._prompt = self._hit = self._refused = 0
        self._places: dict[int, list[int]] = {}

    def start(self, ask: Ask) -> Lease | None:
        """The prompt is looked up and computed."""
        self._now = ask.start_s
        self._prompt += ask.num_prompt
        extra = len(ask.written)
        lease = None
        if len(ask.prompt) + extra <= self._cache.capacity and ask.prompt:
            lease = self._cache.open(ask.prompt, usable=len(ask.prompt), extra=extra, conversation=ask.conversation)
        if lease is None:
            self._refused += bool(ask.prompt)
            return None
        self._hit += lease.start * self._block
        self._cache.loaded(lease)
        self._places[id(lease)] = self._policy.places(lease, ask, self._block) if self._cache.is_recurrent else []
        self._compute(lease, ask.prompt)
        return lease

    def end(self, ask: Ask, lease: Lease) -> None:
        """The answer stands."""
        self._now = ask.end_s
        self._compute(lease, ask.prompt + ask.written)
        del self._places[id(lease)]
        self._cache.close(lease, ends_turn=True)
        if ask.calls and ask.conversation is not None:
            self._cache.expect_return(ask.conversation, "a tool")

    def outcome(self) -> Outcome:
        """Figures so far."""
        return Outcome(
            prompt_tokens=self._prompt,
            hit_tokens=self._hit,
            num_refused=self._refused,
            statistics=self._cache.statistics(),
        )

    def _compute(self, lease: Lease, ids: tuple[int, ...]) -> None:
        known = sum(stop - start for start, stop in lease.runs)
        self._cache.grow(lease, len(ids) - known)
        self._cache.commit(lease, ids)
        places = self._places[id(lease)]
        for place in places:
            if lease.start < place <= len(ids) and self._cache.snapshot_room(lease, place) is not None:
                self._cache.attach(lease, ids[:place])
        self._places[id(lease)] = [place for place in places if place > len(ids)]
