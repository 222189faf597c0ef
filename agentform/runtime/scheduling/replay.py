"""Requests through the real cache and the engine's places for snapshots, without a model.

Of a trace only lengths and what repeats matter to a cache: a token, or a block of some, is a number here.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from agentform.runtime.cache.eviction import GiveUp
from agentform.runtime.cache.handle import Lease
from agentform.runtime.cache.prefix_cache import PrefixCache
from agentform.runtime.cache.statistics import CacheStatistics
from agentform.runtime.scheduling.snapshot_placement import SnapshotPoints

__all__ = ["CacheShape", "Places", "ReplayOutcome", "TracedRequest", "engine_places", "replay"]

_RETURNS_AFTER = "a tool"


@dataclass(frozen=True, kw_only=True)
class TracedRequest:
    """One request of a trace; `num_prompt` in tokens, what is a number a block in blocks of them."""

    conversation: str | None
    start_s: float
    end_s: float
    num_prompt: int
    prompt: tuple[int, ...]
    """The whole blocks of the prompt."""
    written: tuple[int, ...]
    """Blocks that are whole once the answer stands."""
    boundaries: tuple[int, ...] = ()
    """In blocks: places that the caller names, such as the end of system prompt and tools."""
    calls: bool = False
    """Whether it ends with a tool call, so that the conversation comes back when the tool has run."""


Places: TypeAlias = Callable[[Lease, TracedRequest, int], list[int]]
"""From a lease, its request and the tokens of a block: after how many blocks a snapshot is taken."""


@dataclass(frozen=True, kw_only=True)
class CacheShape:
    """What a model keeps, and how finely the trace tells what repeats."""

    token_bytes: int
    snapshot_bytes: int = 0
    """0 for a model without recurrent layers."""
    block_tokens: int = 1
    num_slots: int = 1024
    keep_live: bool = False
    """See `PrefixCache`."""


@dataclass(frozen=True, kw_only=True)
class ReplayOutcome:
    """What came of a trace in one budget."""

    prompt_tokens: int
    hit_tokens: int
    num_refused: int
    """Requests for which there was no room beside those that ran; they count as computed whole."""
    statistics: CacheStatistics

    @property
    def hit_rate(self) -> float:
        """Share of the prompts' tokens that need not be computed; 0 without prompts."""
        return self.hit_tokens / max(1, self.prompt_tokens)


def engine_places(lease: Lease, request: TracedRequest, block: int) -> list[int]:
    """Where the engine takes snapshots; a block is the finest place that a trace knows."""
    fork = lease.num_matched * block if lease.diverged else None
    boundaries = [each * block for each in request.boundaries]
    points = SnapshotPoints.of(request.num_prompt, boundaries, start=lease.start * block, fork=fork)
    places = points.take(0, request.num_prompt)
    end = (len(request.prompt) + len(request.written)) * block
    return sorted({each // block for each in (*places, *([end] if points.is_worth(end) else []))})


def replay(
    requests: Sequence[TracedRequest],
    shape: CacheShape,
    *,
    budget_bytes: int,
    places: Places = engine_places,
    give_up: GiveUp | None = None,
) -> ReplayOutcome:
    """Requests start and end in the order of their times, whatever the cache does.

    `places` and `give_up` are by default what the engine does.
    """
    player = _Player(shape, budget_bytes, places, give_up)
    order = itertools.count()
    ends: list[tuple[float, int, TracedRequest, Lease]] = []
    for request in requests:
        while ends and ends[0][0] <= request.start_s:
            player.end(*heapq.heappop(ends)[2:])
        lease = player.start(request)
        if lease is not None:
            heapq.heappush(ends, (request.end_s, next(order), request, lease))
    return player.outcome()


class _Player:
    def __init__(self, shape: CacheShape, budget_bytes: int, places: Places, give_up: GiveUp | None) -> None:
        self._block = shape.block_tokens
        self._places_of = places
        self._now = 0.0
        each = shape.token_bytes * shape.block_tokens
        self._cache = PrefixCache(
            max(1, budget_bytes // each),
            snapshot_positions=-(-shape.snapshot_bytes // each),
            num_slots=shape.num_slots if shape.snapshot_bytes else 0,
            keep_live=shape.keep_live,
            give_up=give_up,
            clock=lambda: self._now,
        )
        self._prompt = self._hit = self._refused = 0
        self._places: dict[int, list[int]] = {}

    def start(self, request: TracedRequest) -> Lease | None:
        """The prompt is looked up and computed."""
        self._now = request.start_s
        self._prompt += request.num_prompt
        extra = len(request.written)
        lease = None
        if len(request.prompt) + extra <= self._cache.capacity and request.prompt:
            # The last token is computed whatever is found: for its logits.
            usable = min(len(request.prompt), (request.num_prompt - 1) // self._block)
            lease = self._cache.open(request.prompt, usable=usable, extra=extra, conversation=request.conversation)
        if lease is None:
            self._refused += bool(request.prompt)
            return None
        self._hit += lease.start * self._block
        self._places[id(lease)] = self._places_of(lease, request, self._block) if self._cache.is_recurrent else []
        self._compute(lease, request.prompt)
        self._cache.loaded(lease)  # by the step that computes the prompt: until then its state stays
        return lease

    def end(self, request: TracedRequest, lease: Lease) -> None:
        """The answer stands."""
        self._now = request.end_s
        self._compute(lease, request.prompt + request.written)
        del self._places[id(lease)]
        self._cache.close(lease, ends_turn=True)
        if request.calls and request.conversation is not None:
            self._cache.expect_return(request.conversation, _RETURNS_AFTER)

    def outcome(self) -> ReplayOutcome:
        """Figures so far."""
        return ReplayOutcome(
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
