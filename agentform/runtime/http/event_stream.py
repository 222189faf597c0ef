"""Server-sent events, put together from pieces of a body that may end anywhere."""

from __future__ import annotations

import re

from agentform.errors import ReplyMalformed

__all__ = ["EventStream"]

_LINE_END = re.compile(rb"\r\n|\n|\r")
_MOST_BYTES = 64 << 20


class EventStream:
    """Feed bytes, get the data of the events that are complete (WHATWG HTML, section 9.2.6).

    Names, ids and comments are passed over: servers of models send data only.
    """

    def __init__(self, most_bytes: int = _MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._rest = b""
        self._data: list[bytes] = []

    @property
    def is_empty(self) -> bool:
        """Whether no event has begun and not ended."""
        return not self._rest.strip() and not self._data

    def feed(self, piece: bytes) -> list[bytes]:
        """The data of each event that `piece` completes.

        Raises:
            ReplyMalformed: an event grows beyond the limit.
        """
        events: list[bytes] = []
        for line in self._lines(piece):
            if not line and self._data:
                events.append(b"\n".join(self._data))
                self._data = []
            field, _, value = line.partition(b":")
            if field == b"data":
                self._data.append(value.removeprefix(b" "))
        if len(self._rest) + sum(map(len, self._data)) > self._most_bytes:
            raise ReplyMalformed(f"an event of more than {self._most_bytes:,} bytes")
        return events

    def _lines(self, piece: bytes) -> list[bytes]:
        """Lines that are complete; a carriage return at the end may be half of a line's end."""
        text = self._rest + piece
        held = b"\r" if text.endswith(b"\r") else b""
        *lines, rest = _LINE_END.split(text[: len(text) - len(held)])
        self._rest = rest + held
        return lines
