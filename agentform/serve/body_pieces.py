"""How the pieces of a request are read: a few at a time, and no body in very many small ones.

Each chunk costs the event loop some work, however small it is: four megabytes in chunks of a byte are minutes of it.
"""

from __future__ import annotations

from typing import Any

import h11

__all__ = ["PiecewiseConnection"]

_AT_ONCE = 16
"""Events that are read before others have their turn."""
_MOST_PIECES = 8_192
_LEAST_MEAN = 64
"""Bytes that a piece has to have on the mean, where there are more of them."""


class PiecewiseConnection(h11.Connection):
    """A server's side of HTTP that says that it needs data when others should have their turn first."""

    def __init__(self, max_incomplete_event_size: int) -> None:
        super().__init__(h11.SERVER, max_incomplete_event_size)
        self.has_more = False
        """Whether the last `NEED_DATA` only meant that others should have their turn."""
        self._left = _AT_ONCE
        self._num_pieces = self._num_bytes = 0

    def begin_turn(self) -> None:
        """So many events may be read from now on."""
        self.has_more, self._left = False, _AT_ONCE

    def next_event(self) -> Any:
        """See `h11.Connection.next_event`.

        Raises:
            RemoteProtocolError: also for a body of too many too small pieces.
        """
        if self._left == 0:
            self.has_more = True
            return h11.NEED_DATA
        event = super().next_event()
        if event is not h11.NEED_DATA and event is not h11.PAUSED:
            self._left -= 1
        if isinstance(event, h11.Data):
            self._count(len(event.data))
        elif isinstance(event, h11.Request):
            self._num_pieces = self._num_bytes = 0
        return event

    def _count(self, size: int) -> None:
        self._num_pieces, self._num_bytes = self._num_pieces + 1, self._num_bytes + size
        if self._num_pieces > _MOST_PIECES and self._num_bytes < _LEAST_MEAN * self._num_pieces:
            raise h11.RemoteProtocolError(f"a body of more than {_MOST_PIECES} small pieces")
