"""Arguments in a model's style, from the beginning of their JSON text: what forms score and write stays JSON.

::

    {"city": "Par  ──▶  <parameter=city>  Par            marks may be control tokens, values never are
    {"city": "Paris", "days":  ──▶  <parameter=city>Paris</parameter><parameter=days
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from json import JSONDecodeError, JSONDecoder
from typing import TypeAlias

from agentform.decoding.formats.probe import common_prefix
from agentform.decoding.formats.respell import partial_string, respell
from agentform.decoding.formats.types import ArgumentStyle, Elements, JsonObject
from agentform.decoding.formats.write import value_text

__all__ = ["Part", "key_order", "spell", "string_close"]

Part: TypeAlias = tuple[str, bool]
"""A text, and whether it is the format's own, in which control tokens may be spelt."""
_DECODER = JSONDecoder()
_NULL = re.compile(r"null\s*(?=[,}])")
_TYPES = {'"': "string", "{": "object", "[": "array", "t": "boolean", "f": "boolean", "n": "null"}
"""By how a value begins; a number may yet have a fraction."""
_KEY = re.compile(r'\s*[{,]?\s*("(?:[^"\\]|\\.)*")(\s*:)?\s*', re.DOTALL)


def spell(style: ArgumentStyle, text: str) -> list[Part]:
    """The beginning of arguments whose JSON text begins with `text`."""
    if isinstance(style, JsonObject):
        return [(respell(style.values, text), False)]
    return [part for part in _elements(style, text) if part[0]]


def string_close(style: ArgumentStyle) -> str:
    """What ends a string that stands as an argument of its own and is not escaped; empty where strings are."""
    return style.string_close if isinstance(style, Elements) and style.string_values is None else ""


def key_order(style: ArgumentStyle) -> Callable[[str], str] | None:
    """By what the style sorts the keys of arguments; `None` where it keeps their order."""
    if isinstance(style, JsonObject):
        return str if style.values.sort_keys else None
    return str.lower if style.sort_keys else None


@dataclass
class _Cursor:
    text: str
    at: int = 0


def _elements(style: Elements, text: str) -> Iterator[Part]:
    cursor, first = _Cursor(text), True
    while (found := _KEY.match(text, cursor.at)) is not None:
        cursor.at = found.end()
        if not style.nulls and (null := _NULL.match(text, cursor.at)) is not None:
            cursor.at = null.end()
            continue
        yield ("" if first else style.separator) + style.open, True
        first = False
        key = partial_string(found[1])[0]
        yield key, False
        if found[2] is None:
            return
        yield from _value(style, key, cursor)


def _value(style: Elements, key: str, cursor: _Cursor) -> Iterator[Part]:
    rest = cursor.text[cursor.at :]
    if not rest:
        yield common_prefix(*style.all_middles), True
        return
    is_string = rest.startswith('"')
    yield style.middle_of(_TYPES.get(rest[0], "integer")), True
    try:
        value, length = _DECODER.raw_decode(rest)
    except JSONDecodeError:
        cursor.at = len(cursor.text)
        yield _beginning(style, rest), False
        return
    cursor.at += length
    yield value_text(style, value), False
    after = rest[length:].lstrip()
    if not (is_string or after[:1] in (",", "}") or rest[0] in "{["):
        return
    yield style.string_close if is_string else style.close, True
    if style.key_end:
        yield key, False
        yield style.key_end, True


def _beginning(style: Elements, rest: str) -> str:
    """A value that is not whole yet."""
    if rest.startswith('"'):
        value = partial_string(rest)[0]
        return value if style.string_values is None else style.string_values.write(value)[1:-1]
    return respell({"{": style.objects, "[": style.lists}.get(rest[0], style.scalars), rest)
