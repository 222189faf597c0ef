"""Memory that was freed and that the C library still holds."""

from __future__ import annotations

import ctypes
import sys

__all__ = ["give_back_freed_memory"]


def give_back_freed_memory() -> None:
    """For a moment after which much less is needed than before; does nothing where the C library has no such call."""
    if sys.platform != "linux":
        return
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
