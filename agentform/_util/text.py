"""Text that can be written down anywhere: whole Unicode, also from objects that cannot say what they are."""

from __future__ import annotations

import re

__all__ = ["is_unicode", "said", "text_of", "unicode_text"]

_REPLACEMENT = "\ufffd"
_SURROGATE = re.compile(r"[\ud800-\udfff]")


def unicode_text(text: str) -> str:
    """`text` with U+FFFD for NUL and for every lone surrogate; two that make a pair become their character."""
    text = str.__str__(text)  # a subclass may say something else
    if _SURROGATE.search(text):
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text.replace("\0", _REPLACEMENT)


def is_unicode(text: str) -> bool:
    """Whether there is no surrogate in it, which UTF-8 could not write."""
    return _SURROGATE.search(text) is None


def text_of(value: object) -> str:
    """`str(value)`, or the name of its type where it fails to say."""
    try:
        return unicode_text(str(value))
    except Exception:
        return f"<{type(value).__name__}>"


def said(error: BaseException) -> str:
    """What an error says of itself; empty where it says nothing or fails to."""
    try:
        return unicode_text(str(error))
    except Exception:
        return f"(its message cannot be read: {type(error).__name__}.__str__ fails)"
