"""Runs model steps over the KV pool."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from transformers import PreTrainedModel

from agentform.runtime.torch.adapter import forward, prepare, probe_layers
from agentform.runtime.torch.budget import positions_in
from agentform.runtime.torch.kv_pool import KVPool
from agentform.runtime.torch.step import Segment, Step

__all__ = ["ModelRunner"]


class ModelRunner:
    """A prepared model and the pool its attention reads; used by one thread."""

    def __init__(self, model: PreTrainedModel, *, kv_budget_bytes: int) -> None:
        """Raises EngineError for a model that cannot be served, CacheBudgetExceeded for too small a budget."""
        self._model = prepare(model)
        self.device = model.device
        self.dtype = model.dtype
        layers = probe_layers(model)
        self.num_positions = positions_in(kv_budget_bytes, layers, self.dtype)
        with torch.inference_mode():
            self._pool = KVPool(layers, self.num_positions, dtype=self.dtype, device=self.device)

    def compute(self, segments: Sequence[Segment]) -> Sequence[Tensor]:
        """One step; per segment the logits `[rows, vocabulary]`. Writes the segments' KV."""
        with torch.inference_mode():
            step = Step(segments, self._pool, dtype=self.dtype, device=self.device)
            logits = forward(self._model, step, step.input_ids, step.position_ids, step.rows)
            return logits.split([len(segment.rows) for segment in segments])
