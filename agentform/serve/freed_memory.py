"""What large bodies leave behind is given back to the system: allocators keep it, and a server runs for months."""

from __future__ import annotations

from collections.abc import Callable

import anyio

from agentform._util.freed_memory import give_back_freed_memory
from agentform._util.threads import STORES

__all__ = ["FreedMemory"]

_LARGE_BYTES = 128 << 10
"""What is read from a body takes a multiple of its bytes."""


class FreedMemory:
    """Gives memory back after large bodies: once for all that end while it is being done."""

    def __init__(self, give_back: Callable[[], None] = give_back_freed_memory) -> None:
        self._give_back = give_back
        self._is_due = False
        self._is_busy = False

    async def after(self, body_bytes: int) -> None:
        """The exchange of such a body has ended, and its client has its answer."""
        self._is_due = self._is_due or body_bytes >= _LARGE_BYTES
        if self._is_busy or not self._is_due:
            return
        self._is_busy = True
        try:
            with anyio.CancelScope(shield=True):
                while self._is_due:
                    self._is_due = False
                    await STORES.run(self._give_back)
        finally:
            self._is_busy = False
