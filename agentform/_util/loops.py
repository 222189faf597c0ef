"""How a thread reaches an event loop, asyncio's or trio's."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Any

__all__ = ["loop_caller"]


def loop_caller() -> Callable[[Callable[[], Any]], Any]:
    """How any thread makes the loop that is running here call a function soon."""
    trio: Any = sys.modules.get("trio")
    if trio is not None and trio.lowlevel.in_trio_run():
        return trio.lowlevel.current_trio_token().run_sync_soon
    return asyncio.get_running_loop().call_soon_threadsafe
