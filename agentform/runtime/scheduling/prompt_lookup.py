"""Guesses the next tokens of a completion from its own text: what came after the same few tokens before.

Arguments of calls and answers repeat the prompt. A guess is computed in the same step as the token before it and kept
as far as the model would have written the same, so it changes the number of steps and not what is written
(prompt lookup decoding, Saxena 2023; the check is that of speculative decoding, Leviathan et al. 2023,
arXiv 2211.17192).
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from agentform.runtime.cache.salt import split_salt

__all__ = ["PromptLookup"]

_LONGEST_MATCH = 3
_FIRST_GUESS, _LONGEST_GUESS = 3, 7
_FREE_MISSES = 8
"""Guessed tokens that may be wrong before guesses have to pay."""
_LEAST_ACCEPTED = 0.25
"""Share of the guessed tokens that has to be right; a wrong one costs a few percent of a step."""


class PromptLookup:
    """The tokens of one sequence so far, and how guesses from it have fared."""

    def __init__(self, *, shortest_match: int) -> None:
        """`shortest_match` tokens at the end must have stood before, at least, for a guess to be made."""
        self._shortest = shortest_match
        self._text = array("I")
        self._num_guessed = 0
        self._num_right = 0
        self._longest = _FIRST_GUESS

    def guess(self, ids: Sequence[int], limit: int) -> list[int]:
        """At most `limit` tokens that may come after `ids`, which only ever grow; none while guesses do not pay.

        Three tokens until a guess was right to its end, then up to seven as long as they are. With the one before them
        that is four rows, which products unpack their weights for once, or eight, which they do twice for.
        """
        self._text.extend(ids[len(self._text) :] if self._text else split_salt(ids)[1])
        if limit < 1 or self._num_right < _LEAST_ACCEPTED * self._num_guessed - _FREE_MISSES:
            return []
        whole = self._text.tobytes()
        for size in range(min(_LONGEST_MATCH, len(ids) - 1), self._shortest - 1, -1):
            if (at := self._last(whole, size)) is not None:
                return self._text[at : at + min(limit, self._longest, 1 + 2 * size)].tolist()
        return []

    def count(self, num_guessed: int, num_right: int) -> None:
        """Of a guess of so many tokens so many, from its first, were what the model wrote."""
        self._num_guessed += num_guessed
        self._num_right += num_right
        self._longest = _LONGEST_GUESS if num_right == num_guessed else _FIRST_GUESS

    def _last(self, whole: bytes, size: int) -> int | None:
        """Where the last `size` tokens stood before: the index after them, the latest if there are several."""
        width = self._text.itemsize
        wanted, end = whole[-size * width :], len(whole) - width
        while (found := whole.rfind(wanted, 0, end)) >= 0:
            if found % width == 0:
                return found // width + size
            end = found + len(wanted) - 1
        return None
