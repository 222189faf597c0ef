"""Turns bytes of tokens into text, holding back half characters and what may become a stop string."""

from __future__ import annotations

import codecs
from collections.abc import Sequence

__all__ = ["TextStream"]


class TextStream:
    """Feed bytes, get text that is final.

    The stop string that is complete first (by its end in the text) wins, however the text was cut into tokens; of
    several that end together, the longest.
    """

    def __init__(self, stops: Sequence[str] = ()) -> None:
        self._stops = tuple(stop for stop in stops if stop)
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._held = ""
        self.stop: str | None = None
        """The stop string that was found; nothing comes out after it."""

    def feed(self, data: bytes) -> str:
        """Text that is certain by now and not yet given out."""
        if self.stop is not None:
            return ""
        text = self._held + self._decoder.decode(data)
        found = self._first_stop(text)
        if found is not None:
            start, self.stop = found
            self._held = ""
            return text[:start]
        keep = self._may_become_stop(text)
        self._held = text[len(text) - keep :]
        return text[: len(text) - keep]

    def flush(self) -> str:
        """What was held back, at the end; bytes of an incomplete character are dropped."""
        text, self._held = self._held, ""
        return text

    def _first_stop(self, text: str) -> tuple[int, str] | None:
        hits = [(at + len(stop), at, stop) for stop in self._stops if (at := text.find(stop)) >= 0]
        return min(hits)[1:] if hits else None

    def _may_become_stop(self, text: str) -> int:
        """Length of the longest end of `text` that a stop string starts with."""
        longest = max((len(stop) for stop in self._stops), default=1) - 1
        for size in range(min(longest, len(text)), 0, -1):
            if any(stop.startswith(text[-size:]) for stop in self._stops):
                return size
        return 0
