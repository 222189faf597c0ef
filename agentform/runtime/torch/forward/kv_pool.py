"""The tensors that hold the KV of every cached and running token, and the bytes of snapshots beside it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from agentform.runtime.cache.ranges import PositionRanges, count
from agentform.runtime.snapshots.plan import BARE_POSITION_BYTES

__all__ = ["KVPool", "LayerShape", "bytes_per_position"]

_GROUP = 32
"""Numbers of a head that share a scale: as in llama.cpp's Q8_0, some heads have a few large keys."""
_SCALE_DTYPE = torch.float16
_LARGEST = 127


@dataclass(frozen=True, kw_only=True)
class LayerShape:
    """What one attention layer stores per token."""

    num_kv_heads: int
    key_dim: int
    value_dim: int


def bytes_per_position(layers: Mapping[int, LayerShape], dtype: torch.dtype, kv_bits: int | None = None) -> int:
    """Bytes that one token's KV takes over all layers."""
    rows = [(s.num_kv_heads, dim) for s in layers.values() for dim in (s.key_dim, s.value_dim)]
    if kv_bits is None:
        stored = sum(heads * dim for heads, dim in rows) * dtype.itemsize
    else:
        stored = sum(heads * (dim + _num_scales(dim) * _SCALE_DTYPE.itemsize) for heads, dim in rows)
    return stored or BARE_POSITION_BYTES


def _num_scales(dim: int) -> int:
    return dim // _GROUP if dim % _GROUP == 0 else 1


class KVPool:
    """Per layer, keys `[kv_heads, positions, key_dim]` and values `[kv_heads, positions, value_dim]`.

    With 8 bits they are rounded to int8, each group of a head's numbers with a float16 scale of its own.
    Who owns which position is the prefix cache's business; a position is written before it is first read.
    A snapshot is bytes that fill its runs one after the other, and in each run the rows of every head of every
    tensor, keys before values: all of a position's bytes are used.
    """

    def __init__(
        self,
        layers: Mapping[int, LayerShape],
        num_positions: int,
        *,
        dtype: torch.dtype,
        device: torch.device,
        kv_bits: int | None = None,
    ) -> None:
        """`layers` by their index in the model."""

        def rows(heads: int, dim: int, dtype: torch.dtype = dtype) -> Tensor:
            return torch.empty(heads, num_positions, dim, dtype=dtype, device=device)

        kept_as = dtype if kv_bits is None else torch.int8
        self._keys = {layer: rows(s.num_kv_heads, s.key_dim, kept_as) for layer, s in layers.items()}
        self._values = {layer: rows(s.num_kv_heads, s.value_dim, kept_as) for layer, s in layers.items()}
        self._scales: dict[int, tuple[Tensor, Tensor]] = {}
        if kv_bits is not None:
            self._scales = {
                layer: (
                    rows(s.num_kv_heads, _num_scales(s.key_dim), _SCALE_DTYPE),
                    rows(s.num_kv_heads, _num_scales(s.value_dim), _SCALE_DTYPE),
                )
                for layer, s in layers.items()
            }
        scales = (each for pair in self._scales.values() for each in pair)
        stored = [*self._keys.values(), *self._values.values(), *scales]
        self._stored = stored or [rows(1, BARE_POSITION_BYTES, torch.uint8)]

    def write(self, layer: int, key: Tensor, value: Tensor, slots: slice | Tensor) -> None:
        """Store new tokens, `[kv_heads, tokens, dim]` each, at `slots` (one position per token)."""
        if self._scales:
            key_scales, value_scales = self._scales[layer]
            key = _rounded(key, key_scales, slots)
            value = _rounded(value, value_scales, slots)
        _put(self._keys[layer], slots, key)
        _put(self._values[layer], slots, value)

    def read(self, layer: int, runs: PositionRanges, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """Keys and values at `runs`, `[kv_heads, positions, dim]`: a view for one run of this dtype, else one copy."""
        keys, values = (_gathered(each[layer], runs, dtype) for each in (self._keys, self._values))
        if not self._scales:
            return keys, values
        key_scales, value_scales = (_gathered(each, runs, dtype) for each in self._scales[layer])
        return _scaled(keys, key_scales), _scaled(values, value_scales)

    def export(self, runs: PositionRanges) -> Tensor:
        """KV at `runs` in an order that does not depend on how they are cut, uint8 `[count(runs) * bytes]`."""
        parts = [torch.cat([t[:, start:stop] for start, stop in runs], dim=1) for t in self._stored]
        return torch.cat([part.reshape(-1).view(torch.uint8) for part in parts]).cpu()

    def adopt(self, runs: PositionRanges, data: Tensor, num: int, *, skip: int) -> None:
        """Write tokens of what `export` gave for `num` tokens, those from `skip` on, to `runs` until they are full."""
        done = 0
        for tensor in self._stored:
            heads, _, dim = tensor.shape
            size = heads * num * dim * tensor.itemsize
            rows = data[done : done + size].clone().view(tensor.dtype).view(heads, num, dim).to(tensor.device)
            done += size
            at = skip
            for start, stop in runs:
                tensor[:, start:stop] = rows[:, at : at + stop - start]
                at += stop - start

    def write_bytes(self, runs: PositionRanges, offset: int, data: Tensor) -> None:
        """Put `data`, uint8 `[n]`, at `[offset, offset + n)` of the bytes of `runs`."""
        done = 0
        for piece in self._pieces(runs, offset, len(data)):
            piece.copy_(data[done : done + len(piece)])
            done += len(piece)
        assert done == len(data), "bytes beyond the end of the positions"

    def read_bytes(self, runs: PositionRanges, offset: int, num: int) -> Tensor:
        """A copy of bytes `[offset, offset + num)` of `runs`, uint8 `[num]`."""
        return torch.cat(list(self._pieces(runs, offset, num)))

    def _pieces(self, runs: PositionRanges, offset: int, num: int) -> Iterator[Tensor]:
        """Views, uint8 `[m]` each, that together are bytes `[offset, offset + num)` of `runs`."""
        for start, stop in runs:
            for tensor in self._stored:
                size = (stop - start) * tensor.shape[2] * tensor.itemsize
                for head in range(tensor.shape[0]):
                    if not num:
                        return
                    if offset < size:
                        taken = min(num, size - offset)
                        flat = tensor[head, start:stop].view(-1).view(torch.uint8)
                        yield flat[offset : offset + taken]
                        num -= taken
                        offset += taken
                    offset -= min(offset, size)


def _put(stored: Tensor, slots: slice | Tensor, rows: Tensor) -> None:
    if isinstance(slots, slice):
        stored[:, slots] = rows
    else:
        stored.index_copy_(1, slots, rows)


def _rounded(rows: Tensor, scales: Tensor, slots: slice | Tensor) -> Tensor:
    """`rows` `[heads, tokens, dim]` as int8; their scales go to `slots` of `scales` `[heads, positions, groups]`."""
    grouped = rows.float().unflatten(2, (scales.shape[2], -1))
    found = (grouped.abs().amax(dim=-1) / _LARGEST).to(scales.dtype)
    _put(scales, slots, found)
    # Divided by what float16 holds of it, which is what is multiplied by later; what is all but zero has a scale of 0.
    by = found.float().masked_fill(found == 0, torch.inf).unsqueeze(-1)
    return (grouped / by).round_().clamp_(-_LARGEST, _LARGEST).to(torch.int8).flatten(2)


def _scaled(rows: Tensor, scales: Tensor) -> Tensor:
    """Rows that were rounded, `[heads, positions, dim]`, times the scales of their groups."""
    return (rows.unflatten(2, (scales.shape[2], -1)) * scales.unsqueeze(-1)).flatten(2)


def _gathered(stored: Tensor, runs: PositionRanges, dtype: torch.dtype) -> Tensor:
    if len(runs) == 1:
        start, stop = runs[0]
        return stored[:, start:stop].to(dtype)
    if dtype == stored.dtype:
        return torch.cat([stored[:, start:stop] for start, stop in runs], dim=1)
    gathered = stored.new_empty(stored.shape[0], count(runs), stored.shape[2], dtype=dtype)
    at = 0
    for start, stop in runs:
        gathered[:, at : at + stop - start] = stored[:, start:stop]
        at += stop - start
    return gathered
