"""Token ids of texts that were encoded before: prompts, questions and options come back request after request."""

from __future__ import annotations

from collections import OrderedDict

__all__ = ["Encodings"]


class Encodings:
    """The texts used last, up to a number of characters in all. Not thread-safe."""

    def __init__(self, *, max_characters: int = 1 << 20) -> None:
        """Ids take about ten bytes for each character of English."""
        self._max_characters = max_characters
        self._num_characters = 0
        self._known: OrderedDict[tuple[str, bool], tuple[int, ...]] = OrderedDict()

    def get(self, text: str, *, control: bool) -> tuple[int, ...] | None:
        """The ids of `text`, if they are known."""
        found = self._known.get((text, control))
        if found is not None:
            self._known.move_to_end((text, control))
        return found

    def put(self, text: str, ids: tuple[int, ...], *, control: bool) -> None:
        """Keep the ids of a text that `get` did not know, and forget those that were not used for longest."""
        self._known[text, control] = ids
        self._num_characters += len(text)
        while self._num_characters > self._max_characters:
            (forgotten, _), _ = self._known.popitem(last=False)
            self._num_characters -= len(forgotten)
