"""Runs model steps over the pools of KV and of recurrent states."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from agentform.runtime.cache.ranges import PositionRanges
from agentform.runtime.scheduling.segment import Segment
from agentform.runtime.snapshots.plan import PrecisionPlan
from agentform.runtime.snapshots.policy import SnapshotPolicy
from agentform.runtime.torch.forward.kv_pool import KVPool
from agentform.runtime.torch.forward.memory_plan import plan_memory
from agentform.runtime.torch.forward.state_pool import StatePool
from agentform.runtime.torch.forward.step import ForwardStep
from agentform.runtime.torch.forward.transformers_adapter import CausalModel, forward, prepare, probe_layers
from agentform.runtime.torch.snapshots.codec import SnapshotCodec
from agentform.runtime.torch.snapshots.decay_codec import make_codec

__all__ = ["ModelRunner"]


class ModelRunner:
    """A prepared model, the pool its attention reads and the states of its recurrent layers; used by one thread."""

    def __init__(
        self,
        model: CausalModel,
        *,
        kv_budget_bytes: int,
        num_slots: int = 8,
        num_branches: int = 32,
        snapshots: str | SnapshotPolicy | PrecisionPlan = "exact",
        codec: SnapshotCodec | None = None,
        refresh_tokens: int = 0,
        kv_bits: int | None = None,
    ) -> None:
        """`num_slots` and `num_branches` count for models with recurrent layers: sequences at a time, and branch
        tokens of one score in one step. `snapshots` says what is kept of their states; `codec`, if given, does it its
        own way. `refresh_tokens`: see `StatePool`; `kv_bits`: see `EngineOptions`.

        Raises:
            EngineError: for a model that cannot be served or has nothing to compress.
            CacheBudgetExceeded: for too small a budget.
        """
        self._model = prepare(model)
        self.device = model.device
        self.dtype = model.dtype
        layers = probe_layers(model)
        codec = codec or make_codec(snapshots, model, layers.recurrent)
        self.is_recurrent = bool(layers.recurrent)
        self.codec = codec
        self.plan = plan_memory(
            kv_budget_bytes,
            layers,
            dtype=self.dtype,
            codec=codec,
            num_slots=num_slots,
            num_branches=num_branches,
            kv_bits=kv_bits,
        )
        with torch.inference_mode():
            self._pool = KVPool(
                layers.attention, self.plan.num_positions, dtype=self.dtype, device=self.device, kv_bits=kv_bits
            )
            self._states = (
                StatePool(
                    layers.recurrent,
                    num_slots,
                    codec=codec,
                    compute=layers.compute,
                    kv=self._pool,
                    device=self.device,
                    refresh_tokens=refresh_tokens,
                )
                if layers.recurrent
                else None
            )

    @property
    def can_refresh(self) -> bool:
        """See `StatePool.can_refresh`."""
        return self._states is not None and self._states.can_refresh

    def compute(self, segments: Sequence[Segment]) -> Sequence[Tensor]:
        """One step; per segment the logits `[rows, vocabulary]`. Writes the segments' KV, moves their states on.

        After an error the states of all segments are undefined; what was saved before is not.
        """
        with torch.inference_mode():
            self._load(segments)
            step = ForwardStep(segments, self._pool, self._states, dtype=self.dtype, device=self.device)
            logits = forward(self._model, step, step.input_ids, step.position_ids)
            return logits.split([len(segment.rows) for segment in segments])

    def save_state(self, slot: int, runs: PositionRanges) -> None:
        """Copy the live state of a slot into a snapshot."""
        assert self._states is not None, "a model without recurrent layers"
        with torch.inference_mode():
            self._states.save(slot, runs)

    def export(self, runs: PositionRanges, snapshot: PositionRanges) -> tuple[bytes, bytes]:
        """KV at `runs` and the snapshot at `snapshot` (none for `()`), to be kept elsewhere."""
        with torch.inference_mode():
            state = self._pool.read_bytes(snapshot, 0, self.snapshot_bytes).cpu() if snapshot else None
            return self._pool.export(runs).numpy().tobytes(), b"" if state is None else state.numpy().tobytes()

    def adopt(
        self, runs: PositionRanges, kv: bytes, num: int, *, skip: int, snapshot: PositionRanges, state: bytes
    ) -> None:
        """Write what `export` gave for `num` tokens, from `skip` on, to `runs`, and its snapshot to `snapshot`."""
        with torch.inference_mode():
            if runs:
                self._pool.adopt(runs, torch.frombuffer(bytearray(kv), dtype=torch.uint8), num, skip=skip)
            if snapshot:
                self._states_bytes(snapshot, state)

    def _states_bytes(self, snapshot: PositionRanges, state: bytes) -> None:
        self._pool.write_bytes(snapshot, 0, torch.frombuffer(bytearray(state), dtype=torch.uint8).to(self.device))

    @property
    def snapshot_bytes(self) -> int:
        """Bytes of one snapshot; 0 for a model without recurrent layers."""
        return self._states.snapshot_bytes if self._states is not None else 0

    def _load(self, segments: Sequence[Segment]) -> None:
        for segment in segments:
            if segment.load is None or segment.slot is None or self._states is None:
                continue
            num_tokens = segment.num_before + segment.num_warm
            if segment.load and segment.num_warm:
                self._states.load_cold(segment.slot, segment.load, num_tokens=num_tokens)
            elif segment.load:
                self._states.load(segment.slot, segment.load, num_tokens=num_tokens)
            else:
                self._states.clear(segment.slot)
