"""What bodies and connections leave behind is given back to the system.

Allocators keep it, and a server runs for months.
"""

from __future__ import annotations

from collections.abc import Callable

import anyio

from agentform._util.freed_memory import give_back_freed_memory
from agentform._util.threads import STORES

__all__ = ["FreedMemory"]

_LARGE_BYTES = 128 << 10
"""What is read from a body takes a multiple of its bytes."""
_EXCHANGE_BYTES = 2 << 10
"""What an exchange counts at least, so that many small ones are followed by it too, and what connections left."""


class FreedMemory:
    """Gives memory back after a large body or many small ones: once for all that end while it is being done."""

    def __init__(self, give_back: Callable[[], None] = give_back_freed_memory) -> None:
        self._give_back = give_back
        self._num_bytes = 0
        self._is_busy = False

    async def after(self, body_bytes: int) -> None:
        """The exchange of such a body has ended, and its client has its answer."""
        self._num_bytes += max(body_bytes, _EXCHANGE_BYTES)
        if self._is_busy or self._num_bytes < _LARGE_BYTES:
            return
        self._is_busy = True
        try:
            with anyio.CancelScope(shield=True):
                while self._num_bytes >= _LARGE_BYTES:
                    self._num_bytes = 0
                    await STORES.run(self._give_back)
        finally:
            self._is_busy = False
