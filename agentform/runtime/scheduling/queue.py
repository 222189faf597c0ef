"""Requests that wait to run, and which of them is next: the one with most of its prompt in the cache.

::

    due       overtaken too often or waiting too long: first, in the order they came
    held      a running request is about to compute what this one shares with it: not yet
    the rest  most cached tokens first, else in the order they came

So requests with a common beginning run while it is warm, and it is computed once. What the requests that wait would
find in the cache is kept there as long as there is anything else to evict.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from agentform._util.prefixes import common_prefix
from agentform.runtime.cache.prefix_cache import PrefixCache
from agentform.runtime.scheduling.request import Job

__all__ = ["WaitingLine"]

_LEAST_SHARED_TOKENS = 32
"""So few tokens are computed twice sooner than waited for."""
_COMPARED = 32
"""Requests, from the first that came, whose order is looked at; the walk through the tree is not free."""


@dataclass(kw_only=True, eq=False)
class _Waiting:
    job: Job
    since: float
    overtaken: int = 0
    num_cached: int = 0
    shared: dict[Job, int] = field(default_factory=dict[Job, int])
    """Tokens that the prompt shares with those of running requests."""

    def shared_with(self, other: Job) -> int:
        if other not in self.shared:
            num = common_prefix(self.job.ids, other.ids[: other.num_prompt])
            self.shared[other] = min(num, self.job.usable)
        return self.shared[other]


class WaitingLine:
    """Owned by the worker thread."""

    def __init__(
        self,
        cache: PrefixCache,
        *,
        max_overtaken: int,
        max_wait_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """No request is overtaken more than `max_overtaken` times, nor at all once it waited for `max_wait_s`."""
        self._cache = cache
        self._max_overtaken = max_overtaken
        self._max_wait_s = max_wait_s
        self._clock = clock
        self._line: list[_Waiting] = []

    def __len__(self) -> int:
        return len(self._line)

    def __iter__(self) -> Iterator[Job]:
        return (waiting.job for waiting in self._line)

    def add(self, job: Job) -> None:
        """At the end."""
        self._line.append(_Waiting(job=job, since=self._clock()))

    def drop_done(self) -> None:
        """Forget what is over."""
        self._line = [waiting for waiting in self._line if not waiting.job.done]

    def clear(self) -> None:
        """Forget all."""
        self._line.clear()

    def next(self, running: Sequence[Job]) -> Job | None:
        """The request to admit next; `None` if all that wait had better wait."""
        compared = self._line[:_COMPARED]
        for waiting in compared:
            waiting.num_cached = self._cache.expect(waiting.job.ids, usable=waiting.job.usable)
        due = next((waiting for waiting in compared if self._is_due(waiting)), None)
        if due is not None:
            return due.job
        ready = [waiting for waiting in compared if not self._is_held(waiting, running)]
        return max(ready, key=lambda waiting: waiting.num_cached).job if ready else None

    def admitted(self, job: Job) -> None:
        """`job` runs; those that came before it were overtaken."""
        at = next(index for index, waiting in enumerate(self._line) if waiting.job is job)
        for waiting in self._line[:at]:
            waiting.overtaken += 1
        del self._line[at]

    def _is_due(self, waiting: _Waiting) -> bool:
        return waiting.overtaken >= self._max_overtaken or self._clock() - waiting.since >= self._max_wait_s

    def _is_held(self, waiting: _Waiting, running: Sequence[Job]) -> bool:
        """Whether a running request has yet to compute a good part of the prompt; it will keep a snapshot there."""
        waiting.shared = {job: num for job, num in waiting.shared.items() if not job.done}
        if not self._cache.is_reusing:
            return False
        held = False
        for job in running:
            if job.num_computed >= job.num_prompt:
                continue
            shared = waiting.shared_with(job)
            if job.num_computed < shared and shared >= waiting.num_cached + _LEAST_SHARED_TOKENS:
                job.expect_fork(shared)
                held = True
        return held
