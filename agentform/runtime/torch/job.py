"""What every request is to the scheduler: it asks for segments, takes logits, and ends exactly once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from torch import Tensor

from agentform.errors import AgentformError, EngineError
from agentform.messages import Usage
from agentform.runtime.cache.prefix_cache import Lease, PrefixCache
from agentform.runtime.cache.runs import count
from agentform.runtime.torch.mailbox import Mailbox
from agentform.runtime.torch.step import Segment

__all__ = ["Job"]


class Job(ABC):
    """One request from submission to its end; made by the caller, then touched by the worker thread only.

    ::

        queued ──admit──▶ running ──▶ done          failure, cancellation and deadline lead to done from anywhere
    """

    def __init__(
        self, prompt_ids: tuple[int, ...], *, mailbox: Mailbox[Any], deadline: float | None, usable: int
    ) -> None:
        """`deadline` is on the monotonic clock; `usable` prompt tokens may be taken from the cache."""
        self.ids = list(prompt_ids)
        self.num_prompt = len(prompt_ids)
        self.deadline = deadline
        self.done = False
        self._usable = usable
        self._mailbox = mailbox
        self._cache: PrefixCache | None = None
        self._lease: Lease | None = None
        self._computed = 0

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
    def advance(self, segment: Segment, logits: Tensor) -> None:
        """Take the logits, `[len(segment.rows), vocabulary]`, of a segment that was computed."""

    @abstractmethod
    def expire(self) -> None:
        """End the request because its deadline has passed."""

    @property
    def is_decoding(self) -> bool:
        """Whether the next segment is the continuation of a completion, which no prefill may delay."""
        return False

    def admit(self, cache: PrefixCache) -> bool:
        """Take a lease; false if other requests hold too much for now."""
        lease = cache.open(self.ids, usable=self._usable, extra=self.extra_tokens)
        if lease is None:
            return False
        self._cache, self._lease = cache, lease
        return True

    def fail(self, error: BaseException) -> None:
        """End with an error; one that is not agentform's own is wrapped."""
        if self.done:
            return
        if not isinstance(error, AgentformError):
            wrapped = EngineError(f"the request failed inside the engine: {type(error).__name__}: {error}")
            wrapped.__cause__ = error
            error = wrapped
        try:
            self._end()
        finally:
            self._mailbox.put(error)

    def cancel(self) -> None:
        """End without an answer; what was computed stays in the cache."""
        if not self.done:
            self._keep()
            self._end()

    @property
    def num_computed(self) -> int:
        """Tokens of `ids` whose KV exists."""
        return count(self.lease.runs)

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

    def _finish(self, answer: Any) -> None:
        """Keep what was computed, give everything back, answer."""
        self._keep()
        self._end()
        self._mailbox.put(answer)

    def _keep(self) -> None:
        """Move the computed part of `ids` into the tree; the lease stays open."""
        if self._lease is not None and self._cache is not None and self._lease.own:
            self._cache.commit(self._lease, self.ids[: self.num_computed])

    def _end(self) -> None:
        self.done = True
        if self._lease is not None and self._cache is not None:
            self._cache.close(self._lease)

    def _count_computed(self, num: int) -> None:
        self._computed += num
        self.cache.count_computed(num)

    def _usage(self, completion_tokens: int = 0) -> Usage:
        lease = self._lease
        return Usage(
            prompt_tokens=self.num_prompt,
            cached_tokens=min(lease.num_cached, self.num_prompt) if lease else 0,
            computed_tokens=self._computed,
            completion_tokens=completion_tokens,
            miss=lease.miss if lease else None,
        )
