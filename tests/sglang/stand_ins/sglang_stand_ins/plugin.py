"""Entry point of the group `sglang.srt.plugins`: SGLang calls `register` in each of its processes.

Inert where there is a GPU. `SGLANG_STAND_INS_EXTRA_BUFFER=1` allows the radix strategy `extra_buffer`, which SGLang
keeps to GPUs. `SGLANG_STAND_INS_WRONG_SLOT=load` or `store` makes the scheduler use the slot beside the right one for
snapshots, which agentform's pool has to notice.
"""

from __future__ import annotations

import os
import sys
import types
from collections.abc import Callable
from typing import Any

import torch

from sglang_stand_ins import convolution, elementwise, gated_delta

__all__ = ["EXTRA_BUFFER", "REPLACED", "WRONG_SLOT", "register"]

EXTRA_BUFFER = "SGLANG_STAND_INS_EXTRA_BUFFER"
WRONG_SLOT = "SGLANG_STAND_INS_WRONG_SLOT"
_POOL = "agentform.runtime.sglang.plugin.pool.SnapshotPool."
_VALIDATE_EXTRA_BUFFER = "sglang.srt.arg_groups.mamba_hook.validate_mamba_extra_buffer"
_KERNELS = "sglang.kernels.ops."
REPLACED: dict[str, Callable[..., Any]] = {
    "mamba.causal_conv1d_triton.causal_conv1d_fn": convolution.causal_conv1d_fn,
    "mamba.causal_conv1d_triton.causal_conv1d_update": convolution.causal_conv1d_update,
    "mamba.mamba_state_scatter_triton.track_mamba_states_all_layers": gated_delta.track_mamba_states_all_layers,
    "attention.fla.chunk.chunk_gated_delta_rule": gated_delta.chunk_gated_delta_rule,
    "attention.fla.fused_recurrent.fused_recurrent_gated_delta_rule_packed_decode": gated_delta.packed_decode,
    "attention.fla.fused_gdn_gating.fused_gdn_gating": gated_delta.fused_gdn_gating,
    "attention.fla.fused_norm_gate.rms_norm_gated": elementwise.rms_norm_gated,
    "attention.fla.layernorm_gated.layernorm_fn": elementwise.layernorm_fn,
    "attention.triton_gdn_fused_proj.fused_qkvzba_split_reshape_cat": elementwise.fused_qkvzba_split_reshape_cat,
    "attention.triton_gdn_fused_proj.fused_qkvzba_split_reshape_cat_contiguous": (
        elementwise.fused_qkvzba_split_reshape_cat_contiguous
    ),
    "elementwise.elementwise.fused_sigmoid_mul": elementwise.fused_sigmoid_mul,
    "elementwise.elementwise.fused_gate_sigmoid_mul": elementwise.fused_gate_sigmoid_mul,
    "elementwise.elementwise.fused_gate_sigmoid_mul_add": elementwise.fused_gate_sigmoid_mul_add,
}
"""Functions by where they stand below `sglang.kernels.ops`."""


def register() -> None:
    """Register the stand-ins; a name that SGLang does not have fails here and is logged by it."""
    if torch.cuda.is_available():
        return
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    _pretend_vllm()
    for name, function in REPLACED.items():
        HookRegistry.register(_KERNELS + name, function, HookType.REPLACE)
    if os.environ.get(EXTRA_BUFFER) == "1":
        HookRegistry.register(_VALIDATE_EXTRA_BUFFER, lambda *_, **__: None, HookType.REPLACE)
        _pin_nothing()
    wrong = os.environ.get(WRONG_SLOT)
    if wrong == "load":
        HookRegistry.register(_POOL + "load_to_active", _load_from_beside, HookType.BEFORE)
    elif wrong == "store":
        HookRegistry.register(_POOL + "store_from_active", _store_beside, HookType.BEFORE)


def _load_from_beside(pool: Any, live: Any, slots: torch.Tensor, rows: torch.Tensor) -> tuple[Any, Any]:
    return (pool, live, slots % pool.num_slots + 1, rows), {}


def _store_beside(pool: Any, live: Any, rows: torch.Tensor, slots: torch.Tensor) -> tuple[Any, Any]:
    return (pool, live, rows, slots % pool.num_slots + 1), {}


def _pin_nothing() -> None:
    """The strategy pins memory without asking whether there is a device to pin it for."""
    make = torch.tensor

    def tensor(*args: Any, pin_memory: bool = False, **more: Any) -> torch.Tensor:
        return make(*args, **more)

    torch.tensor = tensor
    torch.Tensor.pin_memory = lambda self, *_, **__: self  # type: ignore[method-assign]


def _pretend_vllm() -> None:
    """SGLang imports a kernel from vllm for platforms that it does not know, and then does not call it."""
    package, module = types.ModuleType("vllm"), types.ModuleType("vllm._custom_ops")
    package.__path__ = []
    vars(package)["_custom_ops"] = module
    vars(module)["rotary_embedding"] = None
    sys.modules.setdefault("vllm", package)
    sys.modules.setdefault("vllm._custom_ops", module)
