"""Where the snapshot pool is hung into SGLang 0.5.21. Everything that is used of SGLang's insides is named here.

::

    ModelRunner.load_model                          after    decay parameters of the loaded weights
    KVCacheConfigurator._handle_max_mamba_cache     after    the pool's bytes are taken off what is left for KV
    maybe_init_int8_mamba_checkpoint_pool           instead  our pool
    HybridReqToTokenPool._init_mamba_pool           after    how live states are numbered
    MambaComponent.prepare_for_caching_req          around   room for a snapshot, or none is taken
    MambaComponent.finalize_match_result_in_cache   around   which tokens the snapshot of a match must be of

A live request locks the snapshot that it started from. Where running requests hold all slots, SGLang's own code fails
an assertion in the scheduler ("Can not alloc int8 mamba checkpoint slot") and with it the server ends. Here room is
made beforehand; where there is none, 0 is returned: the cached length of a request whose state was not tracked, which
both callers (of finished and of unfinished requests) take to mean that there is nothing to insert.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

import torch

from agentform.errors import CacheBudgetExceeded, HorizonsUnknown, InvalidRequest
from agentform.runtime.sglang.plugin.layout import SlotLayout
from agentform.runtime.sglang.plugin.pool import SnapshotPool
from agentform.runtime.sglang.plugin.settings import POLICY, POOL, SnapshotSettings
from agentform.runtime.sglang.plugin.slot_owners import Content
from agentform.runtime.sglang.plugin.statistics import StatisticsFile
from agentform.runtime.snapshots.horizons import Horizons
from agentform.runtime.torch.forward.memory_plan import free_bytes
from agentform.runtime.torch.snapshots.model_horizons import horizons_of_model

__all__ = ["SnapshotHooks"]

_LOG = logging.getLogger(__name__)
_GIB = 1 << 30
_LOAD_MODEL = "sglang.srt.model_executor.model_runner.ModelRunner.load_model"
_CACHE = "sglang.srt.mem_cache."
_CONFIGURATOR = _CACHE + "kv_cache_configurator.KVCacheConfigurator."
_COMPONENT = _CACHE + "unified_cache.components.mamba.MambaComponent."
# Settings of the server under which the pool was not run, and what they must be.
_WANTED: Mapping[str, object] = {
    "tp_size": 1,
    "pp_size": 1,
    "dp_size": 1,
    "speculative_algorithm": None,
    "enable_hierarchical_cache": False,
    "enable_lmcache": False,
    "radix_cache_backend": None,
    "enable_linear_replayssm": False,
    "enable_linear_replayssm_spec": False,
    "enable_page_major_kv_layout": False,
    "disaggregation_mode": "null",
}


class SnapshotHooks:
    """The hooks of one process, and what they learn of its model."""

    def __init__(self, settings: SnapshotSettings) -> None:
        self._settings = settings
        self._horizons: Horizons | HorizonsUnknown | None = None
        self._int8_slots: int | None = None
        self._file: StatisticsFile | None = None

    def register(self) -> None:
        """Hand all hooks to SGLang's registry, which applies them."""
        from sglang.srt.plugins.hook_registry import HookRegistry, HookType  # pyright: ignore[reportMissingImports]

        after, instead, around = HookType.AFTER, HookType.REPLACE, HookType.AROUND
        for target, kind, hook in (
            (_LOAD_MODEL, after, self.after_load_model),
            (_CONFIGURATOR + "_handle_max_mamba_cache", after, self.after_live_states),
            (_CACHE + "mamba_checkpoint_pool.maybe_init_int8_mamba_checkpoint_pool", instead, self.make_pool),
            (_CACHE + "memory_pool.HybridReqToTokenPool._init_mamba_pool", after, self.after_pools),
            (_COMPONENT + "prepare_for_caching_req", around, self.around_caching),
            (_COMPONENT + "finalize_match_result_in_cache", around, self.around_match),
        ):
            HookRegistry.register(target, hook, kind)

    def after_load_model(self, result: object, runner: Any) -> None:
        """Read horizons off the loaded weights.

        Raises:
            InvalidRequest: for a server that the pool was not run in.
        """
        args = runner.server_args
        for name, wanted in _WANTED.items():
            found = getattr(args, name, wanted)
            if found != wanted:
                raise InvalidRequest(f"{POLICY} is for {name}={wanted!r}; this server has {name}={found!r}")
        if runner.startup_weight_load is not None:
            raise InvalidRequest(f"{POLICY} reads the weights, and this server goes on before they are loaded")
        self._int8_slots = args.int8_mamba_ckpt_size
        try:
            self._horizons = horizons_of_model(runner.model)
        except HorizonsUnknown as error:
            self._horizons = error
            _LOG.warning("%s has no effect unless the model has recurrent layers: %s", POLICY, error)

    def after_live_states(self, rest_gib: float, configurator: Any, total_gib: float) -> float:
        """What is left for KV after live states and the pool.

        Raises:
            CacheBudgetExceeded: nothing is left; with the numbers.
        """
        params = configurator.mambaish_config.mamba2_cache_params
        layout = self._layout(params, params.layers)
        slots = self._num_slots(layout, _live_slots())
        left = rest_gib - slots * layout.slot_bytes / _GIB
        if left <= 0:
            raise CacheBudgetExceeded(
                f"{slots} snapshots of {layout.slot_bytes:,} bytes need {slots * layout.slot_bytes:,}; of "
                f"{total_gib * _GIB:,.0f} bytes for all caches {rest_gib * _GIB:,.0f} are left after live states, and "
                f"KV needs some: lower {POOL}, or raise --mem-fraction-static"
            )
        return left

    def make_pool(self, *, mamba_size: int, cache_params: Any, mamba_layer_ids: list[int], device: str) -> SnapshotPool:
        """The pool.

        Raises:
            CacheBudgetExceeded: that much memory is not free; with the numbers.
        """
        layout = self._layout(cache_params, mamba_layer_ids)
        slots = self._num_slots(layout, mamba_size)
        free = free_bytes(torch.device(device))
        if free is not None and slots * layout.slot_bytes > free:
            raise CacheBudgetExceeded(
                f"{slots} snapshots of {layout.slot_bytes:,} bytes need {slots * layout.slot_bytes:,}; {free:,} bytes "
                f"are free on {device}: lower {POOL} or --mem-fraction-static"
            )
        pool = SnapshotPool(
            layout, num_slots=slots, device=device, policy=self._settings.snapshots, report=self._write_statistics
        )
        _LOG.info("snapshot pool: %s", pool.statistics())
        if self._settings.statistics_path is not None:
            self._file = StatisticsFile(self._settings.statistics_path, pool.statistics)
        return pool

    def after_pools(self, result: object, pools: Any, *_: Any, **__: Any) -> None:
        """Tell the pool how live states are numbered, and check that they have the sizes it was made for."""
        pool = pools.mamba_ckpt_pool
        if isinstance(pool, SnapshotPool):
            pool.layout.check(pools.mamba_pool.mamba_cache)
            pool.bind(pools.translate_mamba_indices)

    def around_caching(
        self, original: Callable[..., int | None], component: Any, req: Any, insert_params: Any, **about: Any
    ) -> int | None:
        """Make room for a request's snapshot before SGLang takes it, and note which tokens it is of."""
        pool = component.int8_ckpt_pool
        if not isinstance(pool, SnapshotPool):
            return original(component, req=req, insert_params=insert_params, **about)
        if _takes_snapshot(component, req, about["is_finished"]) and not _find_room(component.cache, pool):
            return 0
        num_tokens = original(component, req=req, insert_params=insert_params, **about)
        if insert_params.mamba_value is not None and num_tokens is not None:
            ids = (req.origin_input_ids + req.output_ids)[:num_tokens]
            pool.belongs(insert_params.mamba_value, Content.of(ids, (req.extra_key, req.cache_salt or None)))
        return num_tokens

    def around_match(self, original: Callable[..., Any], component: Any, params: Any, result: Any) -> Any:
        """Check that the snapshot which a request is to start from is of the request's own tokens."""
        result = original(component, params, result)
        pool = component.int8_ckpt_pool
        if isinstance(pool, SnapshotPool) and params.cow_mamba and params.req.kv.mamba_cow_src_index is not None:
            key, kv = params.key, params.req.kv
            ids = key.raw_token_ids()[: len(result.device_indices)]
            content = Content.of(ids, (key.extra_key, key.cache_salt))
            pool.expect(kv.mamba_cow_src_index, int(kv.mamba_pool_idx), content)
        return result

    def _layout(self, sizes: Any, layers: list[int]) -> SlotLayout:
        if isinstance(self._horizons, HorizonsUnknown):
            raise self._horizons
        assert self._horizons is not None, "pools are made after the model is loaded"
        return SlotLayout(self._settings.policy, self._horizons, sizes, layers)

    def _num_slots(self, layout: SlotLayout, live_slots: int) -> int:
        """By default as many as fit into the bytes of the int8 pool that SGLang would make."""
        if self._settings.num_slots is not None:
            return self._settings.num_slots
        int8 = (self._int8_slots or 2 * live_slots) * layout.int8_slot_bytes
        pool = self._settings.pool_bytes if self._settings.pool_bytes is not None else int8
        if pool < layout.slot_bytes:
            raise CacheBudgetExceeded(
                f"a pool of {pool:,} bytes is too small for one snapshot of {layout.slot_bytes:,}: raise {POOL}"
            )
        return pool // layout.slot_bytes

    def _write_statistics(self) -> None:
        if self._file is not None:
            self._file.write()


def _takes_snapshot(component: Any, req: Any, is_finished: bool) -> bool:
    """With the strategy extra_buffer an unfinished request has none before a state of it was tracked."""
    return is_finished or not component.cache.enable_mamba_extra_buffer or req.kv.mamba_last_track_seqlen is not None


def _find_room(cache: Any, pool: SnapshotPool) -> bool:
    """Evict the snapshot that was used longest ago, if none is free; whether there is one now."""
    if not pool.available_size():
        from sglang.srt.mem_cache.base_prefix_cache import EvictParams  # pyright: ignore[reportMissingImports]

        cache.evict(EvictParams(num_tokens=0, mamba_num=1))
        # Counted by what came free: a leaf takes its parents along that hold nothing else.
        pool.note_room(evicted=pool.available_size(), declined=not pool.available_size())
    return pool.available_size() > 0


def _live_slots() -> int:
    from sglang.srt.runtime_context import get_schedule  # pyright: ignore[reportMissingImports]

    return get_schedule().max_mamba_cache_size
