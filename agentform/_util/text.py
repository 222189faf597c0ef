"""Text that can be written down anywhere: whole Unicode, also from objects that cannot say what they are."""

from __future__ import annotations

import re

__all__ = ["is_unicode", "said", "text_of", "unicode_text", "visible_text"]

_REPLACEMENT = "\ufffd"
_CONTROL_PICTURES = 0x2400
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+(?=>)")
"""In the `repr` of what says nothing else of itself; the same object would read differently in every process."""
_UNSEEN = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff"
    r"\U000e0000-\U000e007f]"
)
"""Controls but for line feed and tab, marks of direction, separators, what has no width, and tags."""


def unicode_text(text: str) -> str:
    """`text` with U+FFFD for NUL and for every lone surrogate; two that make a pair become their character."""
    text = str.__str__(text)  # a subclass may say something else
    if not is_unicode(text):
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text.replace("\0", _REPLACEMENT)


def visible_text(text: str) -> str:
    """`text` with control characters shown, not sent: no terminal moves its cursor, hides or reorders anything for it.

    ESC becomes ␛ and carriage return ␍; what changes the direction of writing or is not seen becomes its number.
    Line feeds and tabs stay.
    """
    return _UNSEEN.sub(_shown, text)


def _shown(found: re.Match[str]) -> str:
    code = ord(found.group())
    if code < 0x20:
        return chr(_CONTROL_PICTURES + code)
    return "␡" if code == 0x7F else f"⟨U+{code:04X}⟩"


def is_unicode(text: str) -> bool:
    """Whether there is no surrogate in it, which UTF-8 could not write."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def text_of(value: object) -> str:
    """`str(value)` without addresses in memory, or the name of its type where it fails to say.

    An error is told with its type.
    """
    if isinstance(value, BaseException):
        return f"{type(value).__name__}: {said(value)}".removesuffix(": ")
    try:
        text = unicode_text(str(value))
    except Exception:
        return f"<{type(value).__name__}>"
    return text if isinstance(value, str) else _ADDRESS.sub("", text)


def said(error: BaseException) -> str:
    """What an error says of itself, empty where it says nothing; that it fails to, where it does."""
    try:
        return unicode_text(str(error))
    except Exception:
        return f"(its message cannot be read: {type(error).__name__}.__str__ fails)"
