"""The runner on torch with its cache, scheduler and tiers."""

from __future__ import annotations

import torch

from agentform.runtime.cache.prefix_cache import PrefixCache
from agentform.runtime.scheduling.core import Core, make_tiers
from agentform.runtime.scheduling.scheduler import Compute, Scheduler
from agentform.runtime.torch.cpu.threads import on_free_cores
from agentform.runtime.torch.forward.memory_plan import checked_budget_bytes
from agentform.runtime.torch.forward.runner import ModelRunner
from agentform.runtime.torch.loaded_model import LoadedModel
from agentform.runtime.torch.options import EngineOptions

__all__ = ["Serving"]

_MOST_BRANCH_STATES = 32
"""Branch tokens of one score in one step, for models with recurrent layers: each has a state while a layer runs."""


class Serving(Core):
    """A `Core` on torch."""

    def __init__(self, model: LoadedModel, options: EngineOptions) -> None:
        """Put the parts together.

        Raises:
            CacheBudgetExceeded: the budget holds no two tokens, or there is less memory.
            EngineError: the cache folder cannot be used.
        """
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
            kv_bits=options.kv_bits,
        )
        keep_live = options.keep_live_states
        self.device = runner.device
        self.plan = runner.plan
        cache = PrefixCache(
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
        tiers = make_tiers(
            cache,
            runner,
            guard=f"{model.digest}/{runner.codec.name}/{runner.dtype}/{runner.plan.position_bytes}",
            host_budget_bytes=options.host_budget_bytes,
            cache_dir=options.cache_dir,
            disk_limit_bytes=options.disk_limit_bytes,
        )
        scheduler = Scheduler(
            cache,
            _computing(runner, options.num_threads),
            max_batch_tokens=options.max_batch_tokens,
            save_state=runner.save_state,
            tiers=tiers,
            max_overtaken=options.max_overtaken,
            max_wait_s=options.max_wait_s,
        )
        super().__init__(
            cache,
            scheduler,
            tiers=tiers,
            max_tree_tokens=branches if runner.is_recurrent else options.max_batch_tokens,
            budget_bytes=budget,
            prepare_thread=lambda: _use_threads(options.num_threads),
        )


def _computing(runner: ModelRunner, num_threads: int | None) -> Compute:
    """Its steps; on a processor, unless told otherwise, with as many threads as there are free cores."""
    follows = num_threads is None and runner.device.type == "cpu"
    return on_free_cores(runner.compute) if follows else runner.compute


def _use_threads(num: int | None) -> None:
    if num is not None:
        torch.set_num_threads(num)
