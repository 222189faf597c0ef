"""How many KV positions the cache gets."""

from __future__ import annotations

import os

import torch

from agentform.errors import CacheBudgetExceeded
from agentform.runtime.torch.kv_pool import LayerShape, bytes_per_position

__all__ = ["default_budget_bytes", "positions_in"]

_DEFAULT_BYTES = 1 << 30
_SHARE_OF_FREE = 4


def positions_in(budget_bytes: int, layers: tuple[LayerShape, ...], dtype: torch.dtype) -> int:
    """Positions that fit into a budget. Raises CacheBudgetExceeded if not even two tokens fit."""
    each = bytes_per_position(layers, dtype)
    if budget_bytes < 2 * each:
        raise CacheBudgetExceeded(
            f"a KV budget of {budget_bytes:,} bytes holds fewer than two tokens of {each:,} bytes each"
        )
    return budget_bytes // each


def default_budget_bytes(device: torch.device) -> int:
    """1 GiB, or a quarter of the memory that is free if that is less."""
    free = _free_bytes(device)
    return _DEFAULT_BYTES if free is None else min(_DEFAULT_BYTES, free // _SHARE_OF_FREE)


def _free_bytes(device: torch.device) -> int | None:
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):  # not told on this platform
        return None
