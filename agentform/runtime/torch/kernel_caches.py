"""What kernel libraries prepare and keep per shape: time and memory that no budget of the engine's covers."""

from __future__ import annotations

import os

__all__ = ["bound_kernel_caches"]

_ENTRIES = 64
_VARIABLES = {
    "LRU_CACHE_CAPACITY": str(_ENTRIES),
    "ONEDNN_PRIMITIVE_CACHE_CAPACITY": str(_ENTRIES),
    "TORCH_CUDNN_SDPA_DEPRIORITIZED": "1",
    "TORCH_CUDNN_SDPA_PREFERRED": "0",
}
"""The last two say the same to different versions of torch."""


def bound_kernel_caches() -> None:
    """On a CPU keep at most so many prepared products instead of 1,024, in torch and in oneDNN each; prompts of every
    length are a shape of their own, and a process grows by megabytes a request without it. On a GPU let other attention
    kernels go before cuDNN's: that one plans for every number of keys anew, and so for every token of a completion,
    and keeps all plans.

    The libraries read these variables at their first product, so a process that has computed before keeps what it has.
    Values that are set already stay.
    """
    for name, value in _VARIABLES.items():
        os.environ.setdefault(name, value)
