"""The HTTP library: httpx, or its successor httpx2 where that alone is installed, as newer clients bring it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import httpx
else:
    try:
        import httpx
    except ModuleNotFoundError as missing:
        if missing.name != "httpx":
            raise
        try:
            import httpx2 as httpx
        except ModuleNotFoundError:
            raise missing from None

__all__ = ["httpx"]
