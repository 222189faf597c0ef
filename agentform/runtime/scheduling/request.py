"""What every request is to the scheduler: it asks for segments, takes logits, and ends exactly once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from agentform.errors import AgentformError, EngineError
from agentform.messages import Usage
from agentform.runtime.cache.prefix_cache import Lease, PrefixCache
from agentform.runtime.cache.ranges import PositionRanges, count, cut
from agentform.runtime.cache.salt import salted, split_salt
from agentform.runtime.scheduling.logits import Rows
from agentform.runtime.scheduling.segment import Segment
from agentform.runtime.scheduling.state_cursor import StateCursor
from agentform.runtime.thread_channel import Mailbox

__all__ = ["Job"]


class Job(ABC):
    """One request from submission to its end; made by the caller, then touched by the worker thread only.

    ::

        queued ──admit──▶ running ──▶ done          failure, cancellation and deadline lead to done from anywhere
    """

    def __init__(
        self,
        prompt_ids: tuple[int, ...],
        *,
        mailbox: Mailbox[Any],
        deadline: float | None,
        usable: int,
        conversation: str | None = None,
        boundaries: tuple[int, ...] = (),
        salt: str = "",
    ) -> None:
        """`deadline` is on the monotonic clock; `usable` prompt tokens may be taken from the cache.

        `boundaries` are numbers of prompt tokens after which a snapshot is worth having.
        """
        self.ids = list(salted(prompt_ids, salt))  # as the cache knows them
        self.num_prompt = len(prompt_ids)
        self.deadline = deadline
        self.done = False
        self.ended_turn = False  # whether the conversation is expected back where this request ended
        self.usable = usable
        self.was_fetched = False  # whether slower tiers were asked for the prompt
        self.conversation = conversation
        self._boundaries = boundaries
        self._mailbox = mailbox
        self._cache: PrefixCache | None = None
        self._lease: Lease | None = None
        self._save_state: Callable[[int, PositionRanges], None] | None = None
        self._computed = 0
        self._position = 0
        self._stored = 0  # tokens of `ids` whose KV exists; more than `_position` where a state is being rebuilt
        self._state = StateCursor()

    @property
    @abstractmethod
    def extra_tokens(self) -> int:
        """Positions that may be needed beyond those of `ids` as they are when the job is admitted."""

    @abstractmethod
    def next_segment(self, budget: int, *, whole: bool) -> Segment | None:
        """What to compute next, at most `budget` tokens; `None` to wait for a step with more room.

        With `whole` the budget is a full step's: the job must move on, if need be beyond the budget.
        """

    @abstractmethod
    def advance(self, segment: Segment, logits: Rows) -> None:
        """Take the logits, `[len(segment.rows), vocabulary]`, of a segment that was computed."""

    @abstractmethod
    def expire(self) -> None:
        """End the request because its deadline has passed."""

    @property
    def is_decoding(self) -> bool:
        """Whether the next segment is the continuation of a completion, which no prefill may delay."""
        return False

    def admit(self, cache: PrefixCache, save_state: Callable[[int, PositionRanges], None]) -> bool:
        """Take a lease; false if other requests hold too much for now. `save_state` copies a slot to a snapshot."""
        lease = cache.open(self.ids, usable=self.usable, extra=self.extra_tokens, conversation=self.conversation)
        if lease is None:
            return False
        self._cache, self._lease, self._save_state = cache, lease, save_state
        self._position, self._stored = lease.start, lease.num_matched
        if cache.is_recurrent:
            self._position = self._state.start(lease, num_prompt=self.num_prompt, boundaries=self._boundaries)
        return True

    def expect_fork(self, at: int) -> None:
        """A request that waits goes another way after the first `at` tokens: a place worth a snapshot."""
        self._state.expect_fork(at)

    def rewind(self) -> None:
        """A step failed and left the recurrent state undefined: go through the sequence again from its start."""
        if self.done:
            return
        self.cache.loaded(self.lease)
        self.cache.drop_pending(self.lease)
        self.cache.shrink(self.lease, self._stored)
        self._position = 0
        self._state.restart()

    def fail(self, error: BaseException) -> None:
        """End with an error; one that is not agentform's own is wrapped."""
        if self.done:
            return
        if not isinstance(error, AgentformError):
            wrapped = EngineError(f"the request failed inside the engine: {type(error).__name__}: {error}")
            wrapped.__cause__ = error
            error = wrapped
        self._state.is_broken = True
        try:
            self._end()
        finally:
            self._mailbox.put(error)

    def cancel(self) -> None:
        """End without an answer; what was computed stays in the cache."""
        if not self.done:
            self._keep()
            self._save_end()
            self._end()

    @property
    def num_computed(self) -> int:
        """Tokens of `ids` that are computed: their KV exists and the recurrent state is after the last of them."""
        return self._position

    @property
    def lease(self) -> Lease:
        """What the running job holds."""
        assert self._lease is not None, "the job was not admitted"
        return self._lease

    @property
    def cache(self) -> PrefixCache:
        """Where the running job's lease is from."""
        assert self._cache is not None, "the job was not admitted"
        return self._cache

    def _continue(self, num: int, *, rows: Sequence[int] = (), ahead: Sequence[int] = ()) -> Segment:
        """A segment of the next `num` of `ids`; takes the positions that it needs.

        `ahead` are tokens after the last of `ids` that may not be of the sequence; see `_settle_ahead`.
        """
        start, stop = self._position, self._position + num + len(ahead)
        known = count(self.lease.runs)
        if stop > known:
            self.cache.grow(self.lease, stop - known)
        ids = self.ids[start : start + num]
        return Segment(
            token_ids=(*(ids if start else split_salt(ids)[1]), *ahead),
            num_before=start,
            runs=cut(self.lease.runs, stop)[0],
            rows=tuple(rows),
            num_stored=max(0, min(self._stored, stop) - start),
            slot=self.lease.slot,
            load=self._state.load,
            num_warm=self._state.num_warm(start),
            settle=self._state.settle_in(start, stop),
            saves=self._state.saves(start, stop, lambda point: self.cache.snapshot_room(self.lease, point)),
        )

    def _advance(self, segment: Segment, *, num_ahead: int = 0) -> None:
        """The segment was computed: move on, and give the tree the snapshots that were taken.

        Of its tokens the last `num_ahead` are counted when it is known whether they are of the sequence.
        """
        self._count_computed(len(segment.token_ids) - num_ahead)
        self._position += segment.num_chain
        self._stored = max(self._stored, self._position)
        if self._state.advance(self._position):
            self.cache.loaded(self.lease)
        if segment.saves:
            self._keep()
        for at, _ in segment.saves:
            self.cache.attach(self.lease, self.ids[: segment.num_before + at])

    def _settle_ahead(self, num_ahead: int, num_right: int) -> None:
        """Of the last `num_ahead` tokens computed only the first `num_right` are of the sequence.

        Only without recurrent layers, whose state cannot go back.
        """
        self._position -= num_ahead - num_right
        self._stored = min(self._stored, self._position)
        self.cache.shrink(self.lease, self._position)
        self._count_computed(num_right)

    def _save_end(self) -> None:
        """Take a snapshot of the live state where the sequence stands, if it is worth one and there is room."""
        lease = self._lease
        if lease is None or lease.slot is None or self._save_state is None or not self._state.ends(self._position):
            return
        runs = self.cache.snapshot_room(lease, self._position)
        if runs is not None:
            self._save_state(lease.slot, runs)
            self.cache.attach(lease, self.ids[: self._position])

    def _finish(self, answer: Any) -> None:
        """Keep what was computed, give everything back, answer."""
        self._keep()
        self._end()
        self._mailbox.put(answer)

    def _keep(self) -> None:
        """Move the computed part of `ids` into the tree; the lease stays open."""
        if self._lease is not None and self._cache is not None and self._lease.own:
            self._cache.commit(self._lease, self.ids[: count(self._lease.runs)])

    def _end(self) -> None:
        self.done = True
        if self._lease is not None and self._cache is not None:
            live = self.ids[: self._position] if self._state.has_state and not self._state.is_broken else ()
            self._cache.close(self._lease, ends_turn=self.ended_turn, live=live)

    def _count_computed(self, num: int) -> None:
        self._computed += num
        self.cache.count_computed(num)

    @property
    def _restored_tokens(self) -> int:
        lease = self._lease
        if lease is None or not self.cache.is_recurrent or lease.is_live:
            return 0
        return min(lease.start, self.num_prompt)

    def _usage(self, completion_tokens: int = 0) -> Usage:
        lease = self._lease
        return Usage(
            prompt_tokens=self.num_prompt,
            cached_tokens=min(lease.start, self.num_prompt) if lease else 0,
            restored_tokens=self._restored_tokens,
            replayed_tokens=lease.num_matched - lease.start + lease.refresh if lease else 0,
            computed_tokens=self._computed,
            completion_tokens=completion_tokens,
            miss=lease.miss if lease else None,
        )
