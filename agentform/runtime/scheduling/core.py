"""What stands behind an engine's two verbs, whatever computes: the cache, its tiers, and the worker that owns them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from agentform.errors import CacheBudgetExceeded, EngineError
from agentform.runtime.cache.prefix_cache import PrefixCache
from agentform.runtime.cache.statistics import CacheStatistics, TierStatistics
from agentform.runtime.cache.tiers.disk import DiskIndex
from agentform.runtime.cache.tiers.host import HostIndex
from agentform.runtime.scheduling.request import Job
from agentform.runtime.scheduling.scheduler import Scheduler
from agentform.runtime.scheduling.tiering import StateMover, Tiers
from agentform.runtime.scheduling.worker import Worker

__all__ = ["Core", "make_tiers"]


class Core:
    """Runs jobs; all methods are safe to call from any thread."""

    def __init__(
        self,
        cache: PrefixCache,
        scheduler: Scheduler,
        *,
        tiers: Tiers | None,
        max_tree_tokens: int,
        max_tree_ends: int | None = None,
        budget_bytes: int,
        prepare_thread: Callable[[], None],
    ) -> None:
        """`max_tree_tokens` and `max_tree_ends` bound the branches of one score in one step, see `ScoreJob`."""
        self.is_recurrent = cache.is_recurrent
        self.max_tree_tokens = max_tree_tokens
        self.max_tree_ends = max_tree_ends
        self._budget_bytes = budget_bytes
        self._cache = cache
        self._tiers = tiers
        self._worker = Worker(scheduler, prepare_thread=prepare_thread)

    def close(self) -> None:
        """End all requests and the worker; closing twice is harmless."""
        self._worker.close()

    def submit(self, job: Job) -> None:
        """Queue a request, unless it is done already.

        Raises:
            CacheBudgetExceeded: the request needs more than the budget, even with all else evicted.
            EngineClosed: the engine is closed, or its worker died.
        """
        if job.done:
            return
        need = len(job.ids) + job.extra_tokens
        if need > self._cache.capacity:
            raise CacheBudgetExceeded(
                f"the request may need {need:,} cached tokens; the budget of {self._budget_bytes:,} bytes "
                f"holds {self._cache.capacity:,}"
            )
        self._worker.submit(job)

    def cancel(self, job: Job) -> None:
        """Drop a request; harmless when it is done."""
        self._worker.cancel(job)

    def expect_return(self, conversation: str, label: str) -> None:
        """See `Engine.expect_return`."""
        self._worker.post(lambda: self._cache.expect_return(conversation, label))

    def statistics(self) -> CacheStatistics:
        """The cache's counters, and the tiers below it."""
        statistics = self._cache.statistics()
        below: Mapping[str, TierStatistics] = self._tiers.statistics() if self._tiers is not None else {}
        return replace(statistics, tiers={**statistics.tiers, **below})

    def integrity(self) -> None:
        """Assert the invariants of the cache and its tiers, between two steps."""
        self._worker.call(self._cache.integrity)
        if self._tiers is not None:
            self._worker.call(self._tiers.integrity)

    def is_busy(self) -> bool:
        """Whether any request is queued or running."""
        return self._worker.call(self._worker.has_requests)

    def between_steps(self, function: Callable[[], None]) -> None:
        """Run a function in the worker's thread and wait for it.

        Raises:
            EngineClosed: the engine is closed, or its worker died.
        """
        self._worker.call(function)


def make_tiers(
    cache: PrefixCache,
    mover: StateMover,
    *,
    guard: str,
    host_budget_bytes: int,
    cache_dir: Path | str | None,
    disk_limit_bytes: int,
) -> Tiers | None:
    """The tiers below the device that were asked for; `guard` names what entries must be of, see `Tiers`.

    Raises:
        EngineError: the cache folder cannot be used.
    """
    host = disk = None
    if host_budget_bytes and cache.is_reusing:
        host = HostIndex(whole=cache.is_recurrent, limit_bytes=host_budget_bytes)
    if cache_dir is not None:
        try:
            disk = DiskIndex(Path(cache_dir), guard=guard, whole=cache.is_recurrent, limit_bytes=disk_limit_bytes)
        except OSError as error:
            raise EngineError(f"the cache folder {cache_dir} cannot be used: {error}") from error
    return None if host is disk is None else Tiers(cache, mover, guard=guard, host=host, disk=disk)
