"""One budget in bytes, divided once at the start: what is fixed is taken off, the rest is positions.

::

    budget = scratch + slots + positions        positions hold the KV of tokens, and snapshots
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from agentform._util.free_memory import host_free_bytes
from agentform.errors import CacheBudgetExceeded
from agentform.runtime.torch.forward.kv_pool import bytes_per_position
from agentform.runtime.torch.forward.transformers_adapter import Layers
from agentform.runtime.torch.snapshots.codec import SnapshotCodec

__all__ = ["MemoryPlan", "checked_budget_bytes", "free_bytes", "plan_memory"]

_GPU_SHARE = 0.75
"""The rest is for activations and what the device's libraries take."""
_HOST_SHARE = 0.25
_MOST_HOST_BYTES = 4 << 30
_UNTOLD_BYTES = 1 << 30
_LEAST_TOKENS = 2


@dataclass(frozen=True, kw_only=True)
class MemoryPlan:
    """How a budget is divided."""

    budget_bytes: int
    scratch_bytes: int
    """Copies of recurrent states while a layer runs: a batch of sequences, or the branches of a score."""
    num_slots: int
    """Sequences that may run at a time; 0 for a model without recurrent layers, which needs no slots."""
    slot_bytes: int
    position_bytes: int
    num_positions: int
    snapshot_positions: int
    """Positions that one snapshot takes."""

    def __str__(self) -> str:
        parts = [f"{self.budget_bytes:,} bytes: {self.num_positions:,} positions of {self.position_bytes:,} bytes"]
        if self.num_slots:
            parts.append(f"{self.num_slots} slots of {self.slot_bytes:,} bytes")
            parts.append(f"{self.scratch_bytes:,} bytes of scratch")
            parts.append(f"a snapshot takes {self.snapshot_positions:,} positions")
        return ", ".join(parts)


def plan_memory(
    budget_bytes: int,
    layers: Layers,
    *,
    dtype: torch.dtype,
    codec: SnapshotCodec,
    num_slots: int,
    num_branches: int,
    kv_bits: int | None = None,
) -> MemoryPlan:
    """Divide a budget. `num_branches` bounds the branch tokens that one step runs for one sequence.

    Raises:
        CacheBudgetExceeded: two tokens (and with recurrent layers one snapshot) do not fit; with the numbers.
    """
    each = bytes_per_position(layers.attention, dtype, kv_bits)
    states = layers.recurrent
    slots = num_slots if states else 0
    slot = sum(s.num_bytes + codec.num_inputs(layer, s) * s.input_bytes for layer, s in states.items())
    # Of one layer at a time: the states that a batch starts from and those that it leaves behind.
    scratch = 2 * max(slots, num_branches) * max((s.num_bytes for s in states.values()), default=0)
    snapshot = math.ceil(sum(codec.num_bytes(layer, s) for layer, s in states.items()) / each)
    left = budget_bytes - slots * slot - scratch
    least = (_LEAST_TOKENS + snapshot) * each
    if left < least:
        raise CacheBudgetExceeded(_too_small(budget_bytes, slots, slot, scratch, each, snapshot, least))
    return MemoryPlan(
        budget_bytes=budget_bytes,
        scratch_bytes=scratch,
        num_slots=slots,
        slot_bytes=slot,
        position_bytes=each,
        num_positions=left // each,
        snapshot_positions=snapshot,
    )


def _too_small(budget: int, slots: int, slot: int, scratch: int, each: int, snapshot: int, least: int) -> str:
    if not slots:
        return f"a KV budget of {budget:,} bytes holds fewer than two tokens of {each:,} bytes each"
    return (
        f"a cache budget of {budget:,} bytes is too small: {slots} slots of {slot:,} bytes and {scratch:,} bytes of "
        f"scratch leave {budget - slots * slot - scratch:,}; two tokens of {each:,} bytes and a snapshot of "
        f"{snapshot * each:,} need {least:,}. {slots * slot + scratch + least:,} bytes would do, or fewer slots"
    )


def checked_budget_bytes(asked: int | None, device: torch.device) -> int:
    """The budget asked for; by default a share of the memory that is free beside the weights.

    Three quarters on a GPU. On a CPU a quarter, at most 4 GiB; 1 GiB where the system does not tell what is free. The
    host's memory is handed out page by page.

    Raises:
        CacheBudgetExceeded: a GPU has less than was asked for.
    """
    free = free_bytes(device)
    if asked is None:
        return _default_bytes(free, device)
    if device.type == "cuda" and free is not None and asked > free:
        raise CacheBudgetExceeded(f"a cache budget of {asked:,} bytes does not fit: {device} has {free:,} bytes free")
    return asked


def _default_bytes(free: int | None, device: torch.device) -> int:
    if free is None:
        return _UNTOLD_BYTES
    if device.type == "cuda":
        return int(free * _GPU_SHARE)
    return min(_MOST_HOST_BYTES, int(free * _HOST_SHARE))


def free_bytes(device: torch.device) -> int | None:
    """Memory that is free on a device; `None` where the system does not tell."""
    if device.type == "cuda":
        held = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)  # by torch, for later use
        return torch.cuda.mem_get_info(device)[0] + held
    return host_free_bytes()
