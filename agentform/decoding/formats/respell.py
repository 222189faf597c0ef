"""The beginning of a JSON text in another spelling of values: what is scored and continued is never a whole value."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from agentform.decoding.formats.tags import TaggedValues
from agentform.decoding.formats.values import BareValues, JsonValues, PythonValues, ValueSpelling

__all__ = ["partial_string", "respell"]

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"?|[{}\[\],:]|[^\s{}\[\],:"]+', re.DOTALL)
_WORDS = {"true": "True", "false": "False", "null": "None"}
_HALF_WORD = re.compile("t|tr|tru|f|fa|fal|fals|n|nu|nul")
_HALF_ESCAPE = re.compile(r"\\(?:u[0-9a-fA-F]{0,3})?$")


def respell(spelling: ValueSpelling, text: str) -> str:
    """`text`, the beginning of a JSON text, as `spelling` writes it; of what is longer it writes what is longer."""
    if spelling == JsonValues():
        return text
    if isinstance(spelling, TaggedValues):
        return "".join(spelling.beginning((token, _said(token)) for token in _TOKEN.findall(text)))
    return "".join(_Respelling(spelling).pieces(text))


def _said(token: str) -> str:
    """What a piece of JSON says: a string its text, a null nothing."""
    if token.startswith('"'):
        return partial_string(token)[0]
    return "" if _HALF_WORD.fullmatch(token) or token == "null" else token


def partial_string(text: str) -> tuple[str, bool]:
    """What a JSON string, or the beginning of one, says, and whether it is whole."""
    whole = len(text) > 1 and text.endswith('"') and (len(text) - len(text[:-1].rstrip("\\")) - 1) % 2 == 0
    body = text[1:-1] if whole else text[1:]
    while _HALF_ESCAPE.search(body) and not _decodes(body):
        body = _HALF_ESCAPE.sub("", body)
    return str(json.loads(f'"{body}"')), whole


def _decodes(body: str) -> bool:
    try:
        json.loads(f'"{body}"')
    except ValueError:
        return False
    return True


@dataclass
class _OpenContainer:
    """A container that is open: whether it is an object, holds something, and waits for a key."""

    is_object: bool
    empty: bool = True
    at_key: bool = True


@dataclass
class _Respelling:
    spelling: ValueSpelling
    open: list[_OpenContainer] = field(default_factory=list[_OpenContainer])

    def pieces(self, text: str) -> Iterator[str]:
        for found in _TOKEN.finditer(text):
            yield self._piece(found[0])

    def _piece(self, token: str) -> str:
        if token in "{[":
            before = self._begin()
            self.open.append(_OpenContainer(is_object=token == "{"))
            return before + token
        if token in "}]":
            closed = self.open.pop()
            return ("" if closed.empty else self._line()) + token
        if token == ",":
            self.open[-1].at_key = True
            return self._comma() + self._line()
        if token == ":":
            self.open[-1].at_key = False
            return self._colon()
        is_key = bool(self.open) and self.open[-1].is_object and self.open[-1].at_key
        return self._begin() + (self._key(token) if is_key else self._scalar(token))

    def _begin(self) -> str:
        """What stands before the first thing in a container."""
        if not self.open or not self.open[-1].empty:
            return ""
        self.open[-1].empty = False
        return self._line()

    def _line(self) -> str:
        spelling = self.spelling
        if not isinstance(spelling, JsonValues) or spelling.indent is None:
            return ""
        return "\n" + " " * (spelling.base + spelling.indent * len(self.open))

    def _comma(self) -> str:
        if isinstance(self.spelling, JsonValues):
            return self.spelling.item_separator
        return ", " if isinstance(self.spelling, PythonValues) else ","

    def _colon(self) -> str:
        if isinstance(self.spelling, JsonValues):
            return self.spelling.key_separator
        return ": " if isinstance(self.spelling, PythonValues) else ":"

    def _key(self, token: str) -> str:
        if isinstance(self.spelling, BareValues) and not self.spelling.quoted_keys:
            return partial_string(token)[0]
        return self._scalar(token)

    def _scalar(self, token: str) -> str:
        if token.startswith('"'):
            return self._string(*partial_string(token))
        if not isinstance(self.spelling, JsonValues) and _HALF_WORD.fullmatch(token):
            return ""  # it may be spelt otherwise
        if isinstance(self.spelling, PythonValues):
            return _WORDS.get(token, token)
        return self.spelling.null if isinstance(self.spelling, BareValues) and token == "null" else token

    def _string(self, value: str, whole: bool) -> str:
        if isinstance(self.spelling, BareValues):
            return self.spelling.quote + value + (self.spelling.quote if whole else "")
        written = self.spelling.write(value) if isinstance(self.spelling, JsonValues) else repr(value)
        return written if whole else written[:-1]
