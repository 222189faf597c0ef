"""`state_pack` in plain torch."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["pack", "unpack"]

_LARGEST = 127


def pack(state: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    """See `agentform.kernels.state_pack.pack`."""
    kept = state.reshape(-1, state.shape[-1])[rows].float()
    scales = kept.abs().amax(dim=-1) / _LARGEST
    steps = kept / scales.clamp(min=torch.finfo(torch.float32).tiny).unsqueeze(-1)
    return (steps + 0.5).floor().clamp(-_LARGEST, _LARGEST).to(torch.int8), scales


def unpack(values: Tensor, scales: Tensor, places: Tensor, state: Tensor) -> None:
    """See `agentform.kernels.state_pack.unpack`."""
    rows = torch.zeros(len(places), state.shape[-1], dtype=torch.float32, device=state.device)
    kept = places >= 0
    chosen = places[kept].long()
    rows[kept] = values[chosen].float() * scales[chosen].unsqueeze(-1)
    state.copy_(rows.view(state.shape))
