"""SGLang's pool of live states as far as snapshots see it, in plain torch, and horizons to lay snapshots out by."""

from __future__ import annotations

from types import SimpleNamespace

import torch
from torch import Tensor

from agentform.runtime.snapshots.horizons import Horizons, LayerHorizons

__all__ = ["HORIZONS", "LAYERS", "NUM_LIVE", "LivePool", "sizes"]

LAYERS = (0, 2, 5)
HEADS, VALUE, KEY = 3, 5, 7
CONV = (11, 3)
NUM_LIVE = 4
HORIZONS = Horizons(
    layers={
        layer: LayerHorizons(kind="gated delta", num_heads=HEADS, tokens=tokens)
        for layer, tokens in zip(LAYERS, ((3.0, 80.0, 5000.0), (9.0, 10.0, 11.0), (400.0, 20.0, 90000.0)), strict=True)
    },
    digest="d",
)


def sizes(*, temporal: torch.dtype = torch.float32, num_convs: int = 1) -> SimpleNamespace:
    """What SGLang calls cache_params; every size is odd."""
    return SimpleNamespace(
        shape=SimpleNamespace(temporal=(HEADS, VALUE, KEY), conv=[CONV] * num_convs),
        dtype=SimpleNamespace(temporal=temporal, conv=torch.bfloat16),
        layers=list(LAYERS),
    )


class LivePool:
    """Rows 1 to `NUM_LIVE`; everything is NaN until it is written."""

    def __init__(self, *, temporal: torch.dtype = torch.float32) -> None:
        rows = (len(LAYERS), NUM_LIVE + 1)
        self.mamba_cache = SimpleNamespace(
            temporal=torch.full((*rows, HEADS, VALUE, KEY), torch.nan, dtype=temporal),
            conv=[torch.full((*rows, *CONV), torch.nan, dtype=torch.bfloat16)],
        )

    def fill(self, row: int, seed: int) -> None:
        """Some state of no particular meaning."""
        generator = torch.Generator().manual_seed(seed)
        for each in (self.mamba_cache.temporal, self.mamba_cache.conv[0]):
            each[:, row] = torch.randn(each[:, row].shape, generator=generator).to(each.dtype)

    def read(self, row: int) -> tuple[Tensor, Tensor]:
        """Copies of a row's recurrent and conv states."""
        return self.mamba_cache.temporal[:, row].clone(), self.mamba_cache.conv[0][:, row].clone()

    def poison(self, row: int) -> None:
        """Leave nothing of a row."""
        self.mamba_cache.temporal[:, row] = torch.nan
        self.mamba_cache.conv[0][:, row] = torch.nan
