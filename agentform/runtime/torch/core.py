"""What stands behind an engine's two verbs, put together: runner, cache, tiers, and the worker that owns them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch

from agentform.errors import CacheBudgetExceeded, EngineError
from agentform.runtime.cache.prefix_cache import PrefixCache
from agentform.runtime.cache.statistics import CacheStatistics, TierStatistics
from agentform.runtime.cache.tiers.disk import DiskIndex
from agentform.runtime.cache.tiers.host import HostIndex
from agentform.runtime.scheduling.request import Job
from agentform.runtime.scheduling.scheduler import Scheduler
from agentform.runtime.scheduling.tiering import Tiers
from agentform.runtime.scheduling.worker import Worker
from agentform.runtime.torch.forward.memory_plan import checked_budget_bytes
from agentform.runtime.torch.forward.runner import ModelRunner
from agentform.runtime.torch.loaded_model import LoadedModel
from agentform.runtime.torch.options import EngineOptions

__all__ = ["Serving"]

_MOST_BRANCH_STATES = 32
"""Branch tokens of one score in one step, for models with recurrent layers: each has a state while a layer runs."""


class Serving:
    """Runs jobs; all methods are safe to call from any thread."""

    def __init__(self, model: LoadedModel, options: EngineOptions) -> None:
        """Raises CacheBudgetExceeded, EngineError."""
        budget = checked_budget_bytes(options.kv_budget_bytes, model.model.device)
        branches = min(options.max_batch_tokens, _MOST_BRANCH_STATES)
        runner = ModelRunner(
            model.model,
            kv_budget_bytes=budget,
            num_slots=options.num_slots,
            num_branches=branches,
            snapshots=options.snapshots,
            codec=options.codec,
            refresh_tokens=options.refresh_tokens,
        )
        keep_live = options.keep_live_states
        self.device = runner.device
        self.plan = runner.plan
        self.is_recurrent = runner.is_recurrent
        self.max_tree_tokens = branches if runner.is_recurrent else options.max_batch_tokens
        self._budget_bytes = budget
        self._cache = PrefixCache(
            runner.plan.num_positions,
            budget_bytes=budget,
            position_bytes=runner.plan.position_bytes,
            snapshot_positions=runner.plan.snapshot_positions,
            num_slots=runner.plan.num_slots,
            snapshot_bytes=runner.snapshot_bytes,
            codec=runner.codec.name if runner.is_recurrent else "",
            keep_live=not runner.codec.is_exact if keep_live is None else keep_live,
            refresh_tokens=options.refresh_tokens if runner.can_refresh else 0,
            reuse=options.reuse_prefixes,
        )
        self._tiers = _tiers(self._cache, runner, options, digest=model.digest)
        scheduler = Scheduler(
            self._cache,
            runner.compute,
            max_batch_tokens=options.max_batch_tokens,
            save_state=runner.save_state,
            tiers=self._tiers,
            max_overtaken=options.max_overtaken,
            max_wait_s=options.max_wait_s,
        )
        self._worker = Worker(scheduler, prepare_thread=lambda: _use_threads(options.num_threads))
        self.close = self._worker.close

    def submit(self, job: Job) -> None:
        """Queue a request, unless it is done already. Raises CacheBudgetExceeded, EngineClosed."""
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


def _tiers(cache: PrefixCache, runner: ModelRunner, options: EngineOptions, *, digest: str) -> Tiers | None:
    """Raises EngineError if the cache folder cannot be used."""
    guard = f"{digest}/{runner.codec.name}/{runner.dtype}/{runner.plan.position_bytes}"
    host = disk = None
    if options.host_budget_bytes and options.reuse_prefixes:
        host = HostIndex(whole=runner.is_recurrent, limit_bytes=options.host_budget_bytes)
    if options.cache_folder is not None:
        try:
            disk = DiskIndex(
                options.cache_folder, guard=guard, whole=runner.is_recurrent, limit_bytes=options.disk_limit_bytes
            )
        except OSError as error:
            raise EngineError(f"the cache folder {options.cache_folder} cannot be used: {error}") from error
    return None if host is disk is None else Tiers(cache, runner, guard=guard, host=host, disk=disk)


def _use_threads(num: int | None) -> None:
    if num is not None:
        torch.set_num_threads(num)
