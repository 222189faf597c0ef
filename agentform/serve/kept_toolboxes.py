"""Toolboxes of past requests, kept for the next turn with the same tools."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock

from agentform._util.lru import BoundedDict
from agentform.tools.toolset import Toolbox

__all__ = ["KeptToolboxes"]

_KEPT_CHARACTERS = 4_000_000
"""Of the texts that the toolboxes were made from; made, a toolbox takes a multiple of that."""
_MOST_TOOLBOXES = 64


class KeptToolboxes:
    """The same object for the same tools, for which a responder keeps what it prepared. Any thread may ask.

    Kept for each client: that another one uses the same tools is not to be told from the time that they take.
    """

    def __init__(self, make: Callable[[str], Toolbox], *, kept_characters: int = _KEPT_CHARACTERS) -> None:
        """`make` is given the text of the tools; toolboxes whose texts are longer than that together are dropped."""
        self._make = make
        self._lock = Lock()
        self._limit = kept_characters
        least = kept_characters // _MOST_TOOLBOXES
        self._kept: BoundedDict[tuple[str, str], Toolbox] = BoundedDict(
            kept_characters, weight=lambda key, _: max(len(key[0]), least)
        )

    def of(self, text: str, client: str) -> Toolbox:
        """The toolbox of these tools, made if it is not at hand.

        Raises:
            Whatever `make` raises; then nothing is kept.
        """
        with self._lock:
            found = self._kept.use((text, client))
        if found is not None:
            return found
        made = self._make(text)  # without the lock: it may take long
        with self._lock:
            if len(text) <= self._limit:
                return self._kept.setdefault((text, client), made)
        return made
