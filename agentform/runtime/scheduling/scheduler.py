"""Continuous batching: which requests run, and what goes into the next model step."""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Callable, Sequence

from agentform.runtime.cache.prefix_cache import PrefixCache
from agentform.runtime.cache.ranges import PositionRanges
from agentform.runtime.scheduling.logits import Rows
from agentform.runtime.scheduling.queue import WaitingLine
from agentform.runtime.scheduling.request import Job
from agentform.runtime.scheduling.scoring import ScoreJob
from agentform.runtime.scheduling.segment import Segment
from agentform.runtime.scheduling.tiering import Tiers

__all__ = ["Compute", "SaveState", "Scheduler"]

Compute = Callable[[Sequence[Segment]], Sequence[Rows]]
"""Runs one step; returns per segment the logits of its rows, `[rows, vocabulary]`."""

SaveState = Callable[[int, PositionRanges], None]

_Planned = list[tuple[Job, Segment]]


def _no_state(slot: int, runs: PositionRanges) -> None:
    raise AssertionError("a model without recurrent layers has no state to save")


class Scheduler:
    """Owned by the worker thread. `WaitingLine` says who is admitted; what is admitted never waits for another.

    Each step holds one piece of every completion in progress, and up to `max_batch_tokens` tokens of prompts and
    branches.
    """

    def __init__(
        self,
        cache: PrefixCache,
        compute: Compute,
        *,
        max_batch_tokens: int,
        save_state: SaveState = _no_state,
        tiers: Tiers | None = None,
        max_overtaken: int = 16,
        max_wait_s: float = 10.0,
    ) -> None:
        """`save_state` copies the live recurrent state of a slot into positions of a snapshot.

        A request may be overtaken by `max_overtaken` others whose prompts are warm, within its first `max_wait_s`.
        """
        self._tiers = tiers
        self._cache = cache
        self._compute = compute
        self._save_state = save_state
        self._max_batch_tokens = max_batch_tokens
        self._queue = WaitingLine(cache, max_overtaken=max_overtaken, max_wait_s=max_wait_s)
        self._running: list[Job] = []
        # Jobs of a step that failed and where they were; they run one at a time until they are past that.
        self._suspects: deque[tuple[Job, int]] = deque()

    @property
    def has_work(self) -> bool:
        """Whether `run_once` would do something."""
        return bool(self._queue or self._running)

    def submit(self, job: Job) -> None:
        """Queue a request."""
        self._queue.add(job)

    def cancel(self, job: Job) -> None:
        """Drop a request wherever it is; harmless when it is done."""
        job.cancel()
        self._drop_done()

    def run_idle(self) -> bool:
        """Do a piece of work that can wait; false if there is none."""
        return self._tiers is not None and self._tiers.write_one()

    def run_once(self) -> None:
        """Admit, expire, and run one step."""
        self._expire()
        self._admit()
        planned = self._plan()
        if planned:
            self._run(planned)
        self._drop_done()

    def fail_all(self, make_error: Callable[[], BaseException]) -> None:
        """End every request, each with an error of its own, whatever state they are in."""
        for job in (*self._running, *self._queue):
            with contextlib.suppress(Exception):
                job.fail(make_error())
        self._running.clear()
        self._queue.clear()

    def _expire(self) -> None:
        now = time.monotonic()
        for job in (*self._running, *self._queue):
            if job.deadline is not None and now >= job.deadline and not job.done:
                job.expire()
        self._drop_done()

    def _admit(self) -> None:
        while (job := self._queue.next(self._running)) is not None:
            self._fetch(job)
            if not job.admit(self._cache, self._save_state):
                return
            self._queue.admitted(job)
            if not (isinstance(job, ScoreJob) and job.admit_trivial()):
                self._running.append(job)

    def _fetch(self, job: Job) -> None:
        """Once per job: what slower tiers have of its prompt."""
        if self._tiers is not None and not job.was_fetched:
            job.was_fetched = self._tiers.fetch(tuple(job.ids), job.usable)

    def _plan(self) -> _Planned:
        planned: _Planned = []
        budget = self._max_batch_tokens
        for job in self._next_suspect() or self._running:
            decoding = job.is_decoding
            room = self._max_batch_tokens if decoding else budget
            segment = self._ask(job, room, whole=room == self._max_batch_tokens) if room else None
            if segment is None:
                continue
            planned.append((job, segment))
            if not decoding:
                budget = max(0, budget - len(segment.token_ids))
        return planned

    def _next_suspect(self) -> list[Job]:
        while self._suspects:
            job, failed_at = self._suspects[0]
            if not job.done and job.num_computed <= failed_at:
                return [job]
            self._suspects.popleft()
        return []

    def _ask(self, job: Job, room: int, *, whole: bool) -> Segment | None:
        try:
            return job.next_segment(room, whole=whole)
        except Exception as error:
            job.fail(error)
            return None

    def _run(self, planned: _Planned) -> None:
        try:
            answers = self._compute([segment for _, segment in planned])
        except Exception as error:
            self._run_apart(planned, error)
            return
        for (job, segment), logits in zip(planned, answers, strict=True):
            try:
                job.advance(segment, logits)
            except Exception as error:
                job.fail(error)

    def _run_apart(self, planned: _Planned, error: Exception) -> None:
        """A step failed: find out whose fault it is. Computing a segment again writes the same KV again.

        A recurrent state cannot be computed again from where it was left: its sequence runs from the start.
        """
        if len(planned) == 1:
            planned[0][0].fail(error)
            return
        if self._cache.is_recurrent:
            for job, _ in planned:
                self._suspects.append((job, job.num_computed))
                job.rewind()
            return
        for each in planned:
            self._run([each])

    def _drop_done(self) -> None:
        if self._tiers is not None:
            for job in self._running:
                if job.ended_turn:
                    self._tiers.turn_ended(tuple(job.ids[: job.num_computed]), job.conversation)
        self._running = [job for job in self._running if not job.done]
        self._queue.drop_done()
