"""A bound on what oneDNN keeps per shape on a CPU: memory that no budget of the engine's covers."""

from __future__ import annotations

import os

__all__ = ["bound_kernel_caches"]

_ENTRIES = 64
_VARIABLES = ("LRU_CACHE_CAPACITY", "ONEDNN_PRIMITIVE_CACHE_CAPACITY")


def bound_kernel_caches() -> None:
    """Keep at most so many prepared products instead of 1,024, in torch and in oneDNN each; prompts of every length
    are a shape of their own, and a process grows by megabytes a request without it.

    Both libraries read these variables at their first product, so a process that has computed in bfloat16 before
    keeps what it has. Values that are set already stay.
    """
    for name in _VARIABLES:
        os.environ.setdefault(name, str(_ENTRIES))
