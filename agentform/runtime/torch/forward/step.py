"""One model step over a ragged batch: the tokens of all segments in one row, each attending to its own KV.

::

    row        [ a7 a8 a9 | b41 | c0 c1 c2 c3 ]          packed tokens, [1, num_tokens]
    segments     prefill    decode  prompt rest + branches of a score

A segment's tokens attend to the KV before them and among themselves causally, or, for branches, along a tree.
Recurrent layers carry each segment's state from its slot, see `agentform.runtime.torch.forward.recurrent_step`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from agentform.runtime.cache.ranges import count, cut, join, positions
from agentform.runtime.scheduling.segment import Segment
from agentform.runtime.torch.forward.attention import Span, attend, kv_dtype
from agentform.runtime.torch.forward.kv_pool import KVPool
from agentform.runtime.torch.forward.recurrent_cache import Layer
from agentform.runtime.torch.forward.recurrent_step import LinearStep
from agentform.runtime.torch.forward.state_pool import StatePool

__all__ = ["ForwardStep"]


class ForwardStep:
    """Tensors of one step, built once and read by every layer; the model calls `attend` per layer."""

    def __init__(
        self,
        segments: Sequence[Segment],
        pool: KVPool,
        states: StatePool | None = None,
        *,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        """`states` for a model with recurrent layers; then every segment has a slot."""
        self._pool = pool
        self.num_tokens = sum(len(s.token_ids) for s in segments)
        self.input_ids = _row([t for s in segments for t in s.token_ids], device)
        self.position_ids = _row([p for s in segments for p in _position_ids(s)], device)
        self.rows = torch.tensor(_flat_rows(segments), dtype=torch.long, device=device)
        self._slots = _slots(segments, device)
        self._fresh = _fresh(segments, device)
        self._linear = LinearStep(segments, states, device=device) if states is not None else None
        self._spans = _spans(segments, dtype, device)

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scale: float) -> Tensor:
        """Store this layer's new KV and attend.

        query `[1, heads, tokens, dim]`, key and value `[1, kv_heads, tokens, dim]`; returns
        `[1, tokens, heads, value_dim]`.
        """
        if self._fresh is None:
            self._pool.write(layer, key[0], value[0], self._slots)
        elif len(self._fresh):
            self._pool.write(layer, key[0, :, self._fresh], value[0, :, self._fresh], self._slots)
        parts: list[Tensor] = []
        for span in self._spans:
            keys, values = self._pool.read(layer, span.runs, kv_dtype(query, span))
            part = query[0] if len(self._spans) == 1 else query[0, :, span.start : span.stop]
            parts.append(attend(part, keys, values, span, scale))
        return (parts[0] if len(parts) == 1 else torch.cat(parts)).unsqueeze(0)

    def recur(self, layer: int, compute: Layer, hidden: Tensor) -> Tensor:
        """Run a recurrent layer, `[1, tokens, dim]` to the same shape; moves the segments' states on."""
        assert self._linear is not None, "a recurrent layer without states"
        return self._linear.run(layer, compute, hidden)


def _row(values: list[int], device: torch.device) -> Tensor:
    return torch.tensor([values], dtype=torch.long, device=device)


def _flat_rows(segments: Sequence[Segment]) -> list[int]:
    flat, start = [], 0
    for segment in segments:
        flat.extend(start + row for row in segment.rows)
        start += len(segment.token_ids)
    return flat


def _position_ids(segment: Segment) -> Sequence[int]:
    first = segment.num_before
    if segment.parents is None:
        return range(first, first + len(segment.token_ids))
    depths: list[int] = []
    for parent in segment.parents:
        depths.append(first if parent < 0 else depths[parent] + 1)
    return depths


def _slots(segments: Sequence[Segment], device: torch.device) -> slice | Tensor:
    runs = join(*(cut(s.runs, s.num_before + s.num_stored)[1] for s in segments))
    if len(runs) == 1:
        return slice(*runs[0])
    return torch.tensor(list(positions(runs)), dtype=torch.long, device=device)


def _fresh(segments: Sequence[Segment], device: torch.device) -> Tensor | None:
    """Indices of the packed tokens whose KV is to be stored; `None` for all."""
    if not any(segment.num_stored for segment in segments):
        return None
    fresh, start = [], 0
    for segment in segments:
        fresh.extend(range(start + segment.num_stored, start + len(segment.token_ids)))
        start += len(segment.token_ids)
    return torch.tensor(fresh, dtype=torch.long, device=device)


def _spans(segments: Sequence[Segment], dtype: torch.dtype, device: torch.device) -> list[Span]:
    spans, start = [], 0
    for segment in segments:
        size = len(segment.token_ids)
        assert count(segment.runs) == segment.num_before + size, "a segment whose positions do not fit its tokens"
        mask = _additive(_mask(segment), dtype, device) if size > 1 else None
        spans.append(Span(start=start, stop=start + size, runs=segment.runs, mask=mask))
        start += size
    return spans


def _mask(segment: Segment) -> npt.NDArray[np.bool_]:
    """Which of the segment's own tokens each of them sees, `[tokens, tokens]`."""
    size = len(segment.token_ids)
    if segment.parents is None:
        return np.tri(size, dtype=np.bool_)
    mask = np.eye(size, dtype=np.bool_)
    for index, parent in enumerate(segment.parents):
        if parent >= 0:
            mask[index] |= mask[parent]
    return mask


def _additive(mask: npt.NDArray[np.bool_], dtype: torch.dtype, device: torch.device) -> Tensor:
    seen = torch.from_numpy(mask).to(device)
    return torch.zeros(mask.shape, dtype=dtype, device=device).masked_fill_(~seen, float("-inf"))
