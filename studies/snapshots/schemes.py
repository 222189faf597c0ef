"""Ways to quantise a row, before one is built: what each loses of a state and of the answers from it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from agentform.runtime.torch.snapshots.codec import ExactCodec, LayerState, as_bytes
from studies.snapshots.lab import Lab
from studies.snapshots.quality import TAIL, Cell, contexts, logit_error

__all__ = ["SCHEMES", "measure"]

_TINY = torch.finfo(torch.float32).tiny


def _symmetric(rows: Tensor, most: int, share: float = 1.0) -> Tensor:
    """Steps `-most ... most` of one float32 scale; values beyond `share` of the greatest are clipped to it."""
    scale = (rows.abs().amax(dim=-1, keepdim=True) * share / most).clamp(min=_TINY)
    return (rows / scale + 0.5).floor().clamp(-most, most) * scale


def _clipped(rows: Tensor, most: int) -> Tensor:
    """The share of the greatest value that loses least, row by row."""
    tried = torch.stack([_symmetric(rows, most, 1 - 0.025 * index) for index in range(17)])
    best = (tried - rows).square().sum(dim=-1).argmin(dim=0)
    return tried.gather(0, best[None, ..., None].expand(1, *rows.shape))[0]


def _between(rows: Tensor, steps: int, dtype: torch.dtype = torch.bfloat16) -> Tensor:
    """Steps from the least to the greatest value of the row; these two numbers in `dtype`."""
    low = rows.amin(dim=-1, keepdim=True).to(dtype).float()
    size = ((rows.amax(dim=-1, keepdim=True) - low) / (steps - 1)).to(dtype).float().clamp(min=_TINY)
    return low + ((rows - low) / size + 0.5).floor().clamp(0, steps - 1) * size


def _through_zero(rows: Tensor, steps: int) -> Tensor:
    """The same, with zero on a step: a bfloat16 and a byte a row."""
    low, high = rows.amin(dim=-1, keepdim=True).clamp(max=0), rows.amax(dim=-1, keepdim=True).clamp(min=0)
    size = ((high - low) / (steps - 1)).bfloat16().float().clamp(min=_TINY)
    zero = (-low / size + 0.5).floor()
    return ((rows / size + 0.5).floor() + zero).clamp(0, steps - 1).sub(zero) * size


SCHEMES: Mapping[str, Callable[[Tensor], Tensor]] = {
    "8 bits, around zero (int8)": lambda rows: _symmetric(rows, 127),
    "8 bits, least to greatest": lambda rows: _between(rows, 256),
    "4 bits, around zero": lambda rows: _symmetric(rows, 7),
    "4 bits, around zero, best clipping": lambda rows: _clipped(rows, 7),
    "4 bits, zero on a step": lambda rows: _through_zero(rows, 16),
    "4 bits, least to greatest (int4)": lambda rows: _between(rows, 16),
    "4 bits, least to greatest, float32": lambda rows: _between(rows, 16, torch.float32),
    "3 bits, least to greatest": lambda rows: _between(rows, 8),
    "2 bits, least to greatest": lambda rows: _between(rows, 4),
}
"""From rows `[..., value_dim]` to what comes back of them."""


class _Simulated(ExactCodec):
    """Exact bytes of states that went through a scheme."""

    def __init__(self, name: str, scheme: Callable[[Tensor], Tensor]) -> None:
        self._name, self._scheme = name, scheme

    @property
    def name(self) -> str:
        return self._name

    def encode(self, layer: int, state: LayerState) -> Sequence[Tensor]:
        conv, recurrent = state.tensors
        return [as_bytes(conv), as_bytes(self._scheme(recurrent))]


def measure(lab: Lab, cell: Cell, *, seed: int) -> list[dict[str, Any]]:
    """One row per scheme: share of a head's energy that is lost, and errors of answers and of the text that follows."""
    found: dict[str, list[tuple[float, float, float]]] = defaultdict(list)
    for batch in contexts(cell, seed=seed):
        ids, keys = batch.context[0], batch.asked[0].tolist()
        lab.read(ids[:-TAIL])
        live = lab.session()
        asked, behind = live.ask(keys), live.extend(ids[-TAIL:], rows=range(TAIL))
        for name, scheme in SCHEMES.items():
            lost = np.mean([_lost(scheme, state) for state in lab.states])
            session = lab.session(_Simulated(name, scheme))
            answers, noise = session.ask(keys), session.extend(ids[-TAIL:], rows=range(TAIL))
            errors = float(logit_error(answers, asked).mean()), float(logit_error(noise, behind).mean())
            found[name].append((float(lost), *errors))
    return [
        {"scheme": name, **dict(zip(("lost_energy", "logit_error", "text_error"), np.mean(rows, axis=0), strict=True))}
        for name, rows in found.items()
    ]


def _lost(scheme: Callable[[Tensor], Tensor], state: Tensor) -> float:
    error, energy = (each.square().sum(dim=(-1, -2)) for each in (scheme(state) - state, state))
    return float((error / energy).mean())
