"""What a tool returned or raised, as text for the model: whole Unicode, no more of it than there is room for."""

from __future__ import annotations

from typing import Any

from agentform._util.text import said, unicode_text
from agentform.errors import ToolAborted
from agentform.runtime.engine import Tokenizer
from agentform.schema.json_text import dumps, to_jsonable

__all__ = ["error_text", "result_text", "within"]

_FEWEST_TOKENS = 64
"""What a result may always have, so that an error can be told."""
_CHARACTERS_PER_TOKEN = 16
"""Text of more than so many for each token is cut by characters first: counting its tokens would take too long."""
_PRECISION = 1 / 64
"""Characters for each token of the room by which a cut text may fall short of it: to be exact takes twice as long."""
_BEGINNING = 3 / 4
"""Part of the room that the beginning of a text has; the rest is for its end."""


def result_text(returned: Any) -> str:
    """Text as it is, anything else as JSON.

    Raises:
        InvalidInput: it is nested too deeply, or holds an integer of too many digits.
    """
    return unicode_text(returned) if isinstance(returned, str) else dumps(to_jsonable(returned))


def error_text(error: BaseException | None) -> str:
    """An error in one line; of one that was contained, what the tool raised."""
    if isinstance(error, ToolAborted):
        return f"Error: {error.kind}: {error.said}".rstrip(": ")
    return f"Error: {type(error).__name__}: {said(error) if error else ''}"


def within(text: str, tokenizer: Tokenizer, max_tokens: int) -> str:
    """The text, or its beginning and end with a line between that says what was left out, in about `max_tokens`."""
    most = max(max_tokens, _FEWEST_TOKENS)
    if len(text) * 4 <= most:  # a character has four bytes and so four tokens at most
        return text
    room = most * _CHARACTERS_PER_TOKEN
    whole = len(text) <= room
    if whole and len(tokenizer.encode(text)) <= most:
        return text
    return _cut(text, tokenizer, most)


def _cut(text: str, tokenizer: Tokenizer, most: int) -> str:
    """By halves, as the tokens of a text grow with it."""
    low, high = 0, min(len(text), most * _CHARACTERS_PER_TOKEN)
    while high - low > most * _PRECISION:
        middle = (low + high + 1) // 2
        if len(tokenizer.encode(_marked(text, middle))) <= most:
            low = middle
        else:
            high = middle - 1
    return _marked(text, low)


def _marked(text: str, kept: int) -> str:
    first = int(kept * _BEGINNING)
    last = kept - first
    mark = f"[cut here: {len(text) - kept:,} of {len(text):,} characters are left out]"
    return f"{text[:first]}\n{mark}\n{text[len(text) - last :] if last else ''}"
