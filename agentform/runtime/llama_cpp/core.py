"""The runner on llama.cpp with its cache, scheduler and tiers."""

from __future__ import annotations

from agentform.runtime.cache.prefix_cache import PrefixCache
from agentform.runtime.free_cores import FreeCores
from agentform.runtime.llama_cpp.context import LlamaContext
from agentform.runtime.llama_cpp.memory_plan import LlamaMemoryPlan, measure, plan_memory
from agentform.runtime.llama_cpp.model import LlamaModel
from agentform.runtime.llama_cpp.options import LlamaOptions
from agentform.runtime.llama_cpp.runner import LlamaRunner
from agentform.runtime.scheduling.core import Core, make_tiers
from agentform.runtime.scheduling.scheduler import Scheduler

__all__ = ["LlamaCore"]

_SHED_SHARE = 64
_BATCH_ROOM = 2
"""A batch holds so many times the tokens of prompts and branches that a step has, for completions beside them; or one

branch, which may be as long as the context and is computed at once.
"""


class LlamaCore(Core):
    """A `Core` on llama.cpp; owns the context, not the model."""

    def __init__(self, model: LlamaModel, options: LlamaOptions) -> None:
        """
        Raises:
            CacheBudgetExceeded, EngineError
        """
        cores = FreeCores(options.num_threads)
        self._adapts = options.num_threads is None
        self._cores = cores
        self.plan = plan = _plan(model, options, cores.num)
        self._context = context = LlamaContext(
            model,
            num_cells=plan.num_cells,
            max_batch=max(_BATCH_ROOM * options.max_batch_tokens, min(plan.num_positions, model.context_tokens)),
            max_rows=plan.max_rows,
            num_in_batches=plan.num_in_batches,
            num_threads=self.num_threads,
            kv_bits=options.kv_bits,
        )
        runner = LlamaRunner(context, plan, window=model.window_tokens, before_step=self._use_threads)
        cache = _cache(plan, options)
        cache.freed_to(runner.freed)
        runner.room_by(lambda: cache.shed(max(1, cache.capacity // _SHED_SHARE)))
        tiers = make_tiers(
            cache,
            runner,
            guard=f"{model.digest}/{plan.position_bytes}/{model.api.version}",
            host_budget_bytes=options.host_budget_bytes,
            cache_dir=options.cache_dir,
            disk_limit_bytes=options.disk_limit_bytes,
        )
        scheduler = Scheduler(
            cache,
            runner.compute,
            max_batch_tokens=options.max_batch_tokens,
            save_state=runner.save_state,
            tiers=tiers,
            max_overtaken=options.max_overtaken,
            max_wait_s=options.max_wait_s,
        )
        self._runner, self._its_cache = runner, cache
        super().__init__(
            cache,
            scheduler,
            tiers=tiers,
            max_tree_tokens=options.max_batch_tokens,
            max_tree_ends=len(plan.branches),
            budget_bytes=plan.budget_bytes,
            prepare_thread=lambda: None,
        )

    @property
    def num_threads(self) -> int:
        """Threads that the next step computes with."""
        return self._cores.num if self._adapts else self._cores.most

    def close(self) -> None:
        """See `Core.close`; the context is freed."""
        super().close()
        self._context.close()

    def integrity(self) -> None:
        """See `Core.integrity`; while nothing runs, the sequences hold what the cache owns as well."""
        super().integrity()
        self.between_steps(self._check_sequences)

    def _check_sequences(self) -> None:
        if not self._its_cache.statistics().live_tokens:
            self._runner.integrity(self._its_cache.owned())

    def _use_threads(self) -> None:
        self._context.use_threads(self.num_threads)


def _plan(model: LlamaModel, options: LlamaOptions, num_threads: int) -> LlamaMemoryPlan:
    return plan_memory(
        options.kv_budget_bytes,
        measure(model, num_threads=num_threads, kv_bits=options.kv_bits),
        context_tokens=model.context_tokens,
        has_window=model.has_window,
        max_batch_tokens=options.max_batch_tokens,
        num_slots=options.num_slots,
    )


def _cache(plan: LlamaMemoryPlan, options: LlamaOptions) -> PrefixCache:
    return PrefixCache(
        plan.num_positions,
        budget_bytes=plan.budget_bytes,
        position_bytes=plan.position_bytes,
        snapshot_positions=plan.snapshot_positions,
        num_slots=plan.num_slots,
        snapshot_bytes=plan.state_bytes,
        codec="exact" if plan.num_slots else "",
        reuse=options.reuse_prefixes,
    )
