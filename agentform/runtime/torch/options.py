"""What can be set of the embedded engine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from agentform.errors import InvalidRequest
from agentform.runtime.snapshots.plan import PrecisionPlan
from agentform.runtime.snapshots.policy import SnapshotPolicy
from agentform.runtime.torch.snapshots.codec import SnapshotCodec

__all__ = ["EngineOptions"]


@dataclass(frozen=True, kw_only=True)
class EngineOptions:
    """Keyword arguments of `TorchEngine`, beside those that say how the model is loaded.

    Raises:
        InvalidRequest: a number is out of its range.
    """

    kv_budget_bytes: int | None = None
    """For the KV, and for models with recurrent layers their live states, snapshots and the copies of states that exist
    while a layer runs; by default three quarters of what a GPU has free beside the weights, on a CPU a quarter of
    the free memory and at most 4 GiB."""
    host_budget_bytes: int = 0
    """What is evicted from `kv_budget_bytes` stays in the host's memory within this budget of its own."""
    kv_bits: int | None = None
    """8: keys and values are kept in 8 bits, each 32 numbers with a scale, on the device, in the host's memory and on
    disk: about half of the memory at 16 bits. Not by default: it costs a little exactnessand time."""
    max_batch_tokens: int = 512
    """Most prompt and branch tokens of one step."""
    num_slots: int = 8
    """Live states of models with recurrent layers."""
    snapshots: str | SnapshotPolicy | PrecisionPlan = "exact"
    """What is kept of a recurrent state: "exact", another name of `NAMED_POLICIES`, a policy, or the tier of every
    unit; with a `codec` that is its business."""
    codec: SnapshotCodec | None = None
    """How snapshots are written and read instead."""
    refresh_tokens: int = 0
    """After a restore, so many tokens before the snapshot run again to warm up what it does not hold, as far as that
    forgets within four times as many."""
    keep_live_states: bool | None = None
    """Whether the state that a request leaves in its slot serves the next one that goes on from there; by default where
    snapshots lose something, so that what follows in a conversation starts from exact states."""
    reuse_prefixes: bool = True
    """Without it every request starts from nothing: what the cache is measured against."""
    cache_dir: Path | str | None = None
    """Where ends of turns are kept, which outlive the engine; several engines and processes may share a folder."""
    disk_limit_bytes: int = 8 << 30
    """How much of `cache_dir` is used."""
    max_overtaken: int = 16
    """Of the requests that wait, those with the warmest prompts run first; none is overtaken by more than so many."""
    max_wait_s: float = 10.0
    """A request that has waited for so long is not overtaken at all."""
    num_threads: int | None = None
    """Threads that torch computes with; by default the physical cores that nobody else keeps busy, anew each second."""
    guess_tokens: bool = True
    """Whether a completion that repeats text is computed several tokens to a step, see `prompt_lookup`."""

    def __post_init__(self) -> None:
        if self.max_batch_tokens < 1:
            raise InvalidRequest("max_batch_tokens must be at least 1")
        if self.kv_bits not in (None, 8):
            raise InvalidRequest(f"kv_bits is {self.kv_bits}; it is 8, or left out: as the model computes")
        if self.refresh_tokens < 0:
            raise InvalidRequest(f"refresh_tokens is {self.refresh_tokens}")
