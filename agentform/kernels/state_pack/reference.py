"""`state_pack` in plain torch."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["pack", "pack_int4", "unpack"]

_LARGEST = 127
_LAST_STEP = 15
_TINY = torch.finfo(torch.float32).tiny


def pack(state: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    """See `agentform.kernels.state_pack.pack`."""
    kept = _kept(state, rows)
    scales = _quotient(kept.abs().amax(dim=-1), _LARGEST)
    steps = kept / scales.clamp(min=_TINY).unsqueeze(-1)
    return (steps + 0.5).floor().clamp(-_LARGEST, _LARGEST).to(torch.int8), scales


def pack_int4(state: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    """See `agentform.kernels.state_pack.pack_int4`."""
    kept = _kept(state, rows)
    low = kept.amin(dim=-1).bfloat16()
    size = _quotient(kept.amax(dim=-1) - low.float(), _LAST_STEP).clamp(min=0).bfloat16()
    steps = (kept - low.float().unsqueeze(-1)) / size.float().clamp(min=_TINY).unsqueeze(-1)
    steps = (steps + 0.5).floor().clamp(0, _LAST_STEP).to(torch.uint8)
    half = (state.shape[-1] + 1) // 2
    nibbles = steps[:, :half].clone()
    nibbles[:, : steps.shape[1] - half] |= steps[:, half:] << 4
    return nibbles, torch.stack([low, size], dim=-1)


def unpack(values: Tensor, scales: Tensor, nibbles: Tensor, ranges: Tensor, places: Tensor, state: Tensor) -> None:
    """See `agentform.kernels.state_pack.unpack`."""
    num = len(scales)
    rows = torch.zeros(len(places), state.shape[-1], dtype=torch.float32, device=state.device)
    eight, four = (places >= 0) & (places < num), places >= num
    chosen = places[eight].long()
    rows[eight] = values[chosen].float() * scales[chosen].unsqueeze(-1)
    chosen = places[four].long() - num
    low, size = ranges[chosen].float().split(1, dim=-1)
    steps = torch.cat([nibbles[chosen] & _LAST_STEP, nibbles[chosen] >> 4], dim=-1)[:, : state.shape[-1]]
    rows[four] = low + steps.float() * size
    state.copy_(rows.view(state.shape))


def _quotient(values: Tensor, divisor: int) -> Tensor:
    """Rounded once: by a plain number CUDA multiplies with its reciprocal, which may be a bit off."""
    return values / values.new_full((), divisor)


def _kept(state: Tensor, rows: Tensor) -> Tensor:
    return state.reshape(-1, state.shape[-1])[rows].float()
