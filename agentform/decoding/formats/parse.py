"""Reads the calls in what a model wrote, in its own format; where its spacing differs a little, that is read too."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from agentform.decoding.formats.elements import read_elements
from agentform.decoding.formats.reading import Unreadable, read_json
from agentform.decoding.formats.types import CallPiece, Elements, Slot, ToolCallFormat
from agentform.errors import InvalidInput
from agentform.messages import JsonValue
from agentform.schema.json_text import loads

__all__ = ["ParsedCall", "ParsedTurn", "parse_calls"]

_HARMONY = re.compile(r"to=functions\.([\w.-]+)[^{]*?<\|message\|>")
_JSON_KEY = re.compile(r'"(\w+)"\s*:\s*"?$')
_ARGUMENT_KEYS = ("arguments", "parameters", "args")


@dataclass(frozen=True, kw_only=True)
class ParsedCall:
    """A call as it was written; nothing of it has been checked against a schema."""

    name: str
    arguments: Mapping[str, JsonValue]
    id: str = ""


@dataclass(frozen=True, kw_only=True)
class ParsedTurn:
    """What a model wrote: free text, and the calls after it."""

    text: str
    """Before the first call."""
    calls: tuple[ParsedCall, ...] = ()
    rest: str = ""
    """After the last call."""


def parse_calls(
    format: ToolCallFormat, text: str, schemas: Mapping[str, Mapping[str, Any]] | None = None, *, start: int = 0
) -> ParsedTurn:
    """The calls in `text` from `start`; `schemas` are the tools' parameters by tool name.

    Without the schemas any name counts as a tool's and, where the format writes strings as they are, a value that
    reads as JSON is taken for it. Never raises: what is no call stays text.
    """
    reader = _Reader(format, schemas)
    for at in reader.openings(text, start):
        calls, end = reader.section(text, at)
        if calls:
            return ParsedTurn(text=reader.text_before(text, at), calls=tuple(calls), rest=text[end:])
    return ParsedTurn(text=text)


class _Reader:
    def __init__(self, format: ToolCallFormat, schemas: Mapping[str, Mapping[str, Any]] | None) -> None:
        self._format = format
        self._layout = format.layout
        self._schemas = schemas
        self._keys = _json_keys(format)

    def openings(self, text: str, start: int) -> Iterator[int]:
        """Where calls may begin, in order."""
        if not self._layout.opening:  # a name comes first: at the beginning, or after what ends the text
            yield start
            yield from (found.end() for mark in self._format.marks for found in _all(mark, text, start))
            return
        marks = [mark for mark in (self._layout.opening, *self._format.marks) if mark.strip()]
        pattern = re.compile("|".join(re.escape(mark) for mark in sorted(set(marks), key=len, reverse=True)))
        at = start
        while found := pattern.search(text, at):
            yield found.start()
            at = found.start() + 1

    def text_before(self, text: str, at: int) -> str:
        """The free text before calls at `at`, without what stands between."""
        before = text[:at].removesuffix(self._layout.before_after_text)
        return before.removeprefix(self._format.text_open_with_calls).strip()

    def section(self, text: str, at: int) -> tuple[list[ParsedCall], int]:
        """The calls that begin at `at`, and where they end."""
        calls, end = self._strict(text, at)
        if calls:
            return calls, end
        for read in (self._harmony, self._json_after_mark):
            try:
                calls, end = read(text, at)
            except Unreadable:
                continue
            if calls:
                return calls, end
        return [], at

    def _strict(self, text: str, at: int) -> tuple[list[ParsedCall], int]:
        calls: list[ParsedCall] = []
        layout = self._layout
        if text.startswith(layout.section_open, at):
            at += len(layout.section_open)
        while layout.max_calls is None or len(calls) < layout.max_calls:
            start = at + len(layout.between) if calls and text.startswith(layout.between, at) else at
            if calls and start == at and layout.between:
                break
            try:
                call, at = self._call(text, start)
            except Unreadable:
                break
            calls.append(call)
        if calls and layout.section_close and text.startswith(layout.section_close, at):
            at += len(layout.section_close)
        return calls, at

    def _call(self, text: str, at: int) -> tuple[ParsedCall, int]:
        pieces, found = self._layout.call, dict[Slot, Any]()
        for position, piece in enumerate(pieces):
            following = self._following(position)
            if isinstance(piece, str):
                at = _literal(text, at, piece, last=position == len(pieces) - 1)
            elif piece is Slot.ARGUMENTS:
                found[piece], at = self._arguments(text, at, str(found.get(Slot.NAME, "")), following)
            else:
                value, at = _slot(text, at, piece, *self._ends(position, following))
                if found.setdefault(piece, value) != value:
                    raise Unreadable(f"two different {piece.value}s in one call: {found[piece]!r} and {value!r}")
        name = str(found.get(Slot.NAME, ""))
        self._check_known(name)
        return ParsedCall(name=name, arguments=found[Slot.ARGUMENTS], id=str(found.get(Slot.ID, ""))), at

    def _following(self, position: int) -> str:
        """The next fixed text after a piece."""
        return next((piece for piece in self._layout.call[position + 1 :] if isinstance(piece, str)), "")

    def _ends(self, position: int, following: str) -> tuple[str, ...]:
        """What may stand after a slot: arguments that come right after it begin with a mark of their own, if any do."""
        style, later = self._format.arguments, self._layout.call[position + 1 : position + 2]
        opens = isinstance(style, Elements) and later == (Slot.ARGUMENTS,) and bool(style.open.strip())
        return (following, style.open) if opens and isinstance(style, Elements) else (following,)

    def _arguments(self, text: str, at: int, name: str, following: str) -> tuple[Mapping[str, JsonValue], int]:
        style = self._format.arguments
        if isinstance(style, Elements):
            schema = (self._schemas or {}).get(name, {})
            return read_elements(style, text, at, following=following, schema=schema)
        value, end = read_json(text, at)
        return _as_arguments(value), end

    def _harmony(self, text: str, at: int) -> tuple[list[ParsedCall], int]:
        found = _HARMONY.search(text, at)
        if found is None or "to=functions." not in self._layout.opening:
            return [], at
        value, end = read_json(text, found.end())
        self._check_known(found[1])
        return [ParsedCall(name=found[1], arguments=_as_arguments(value))], end

    def _json_after_mark(self, text: str, at: int) -> tuple[list[ParsedCall], int]:
        """JSON objects that hold name and arguments, whatever their spacing and order of keys."""
        if self._keys is None:
            return [], at
        mark = next((mark for mark in self._format.marks if text.startswith(mark, at)), "")
        at += 0 if mark.startswith("{") else len(mark)
        at += len(text[at:]) - len(text[at:].lstrip())
        value, end = read_json(text, at)
        items = cast("list[JsonValue]", value) if isinstance(value, list) else [value]
        return [self._json_call(item) for item in items], end

    def _json_call(self, value: JsonValue) -> ParsedCall:
        if not isinstance(value, Mapping) or self._keys is None:
            raise Unreadable("a call is an object")
        name_key, arguments_key = self._keys
        if not name_key:
            [(name, arguments)] = value.items() if len(value) == 1 else [("", None)]
        else:
            name = value.get(name_key)
            keys = [key for key in (arguments_key, *_ARGUMENT_KEYS) if key in value]
            arguments = value[keys[0]] if keys else None
        if not isinstance(name, str):
            raise Unreadable("a call without a name")
        self._check_known(name)
        return ParsedCall(name=name, arguments=_as_arguments(arguments), id=str(value.get("id") or ""))

    def _check_known(self, name: str) -> None:
        if not name or (self._schemas is not None and name not in self._schemas):
            raise Unreadable(f"no tool is called {name!r}")


def _all(mark: str, text: str, start: int) -> Iterator[re.Match[str]]:
    return re.compile(re.escape(mark)).finditer(text, start)


def _literal(text: str, at: int, piece: str, *, last: bool) -> int:
    """Past a fixed piece; white space at its ends may differ, and the last one may be missing, as the end of a turn."""
    if text.startswith(piece, at):
        return at + len(piece)
    if last and (not text[at:].strip() or piece.startswith(text[at:])):
        return len(text)
    core = piece.strip()
    start = at + len(text[at:]) - len(text[at:].lstrip())
    if core and text.startswith(core, start):
        return start + len(core)
    if last and not core:
        return at
    raise Unreadable(f"{piece!r} is missing")


def _slot(text: str, at: int, slot: Slot, *following: str) -> tuple[str, int]:
    found = [_find(text, at, mark) for mark in following]
    end = min((each for each in found if each >= 0), default=-1)
    if end < 0:
        raise Unreadable(f"a call's {slot.value} has no end")
    value = text[at:end]
    if "\n" in value.strip() or len(value) > 200:
        raise Unreadable(f"no {slot.value}: {value[:20]!r}")
    return value.strip(), end


def _find(text: str, at: int, mark: str) -> int:
    """Where a fixed text stands, without the white space around it if it does not stand as it is; -1: nowhere."""
    end = text.find(mark, at) if mark else -1
    return text.find(mark.strip(), at) if end < 0 and mark.strip() else end


def _as_arguments(value: JsonValue) -> Mapping[str, JsonValue]:
    if isinstance(value, str):  # some models write the object as a string
        try:
            value = loads(value)
        except InvalidInput as error:
            raise Unreadable("arguments are an object") from error
    if not isinstance(value, Mapping):
        raise Unreadable("arguments are an object")
    return value


def _json_keys(format: ToolCallFormat) -> tuple[str, str] | None:
    """The keys of name and arguments, where a call as a whole is a JSON object; no key: the name is one itself."""
    pieces: Sequence[CallPiece] = format.layout.call
    if isinstance(format.arguments, Elements) or Slot.NAME not in pieces:
        return None
    name, arguments = (_before(pieces, slot) for slot in (Slot.NAME, Slot.ARGUMENTS))
    if name.rstrip().endswith('{"') and arguments.lstrip().startswith('"'):
        return "", ""
    name_key, arguments_key = _JSON_KEY.search(name), _JSON_KEY.search(arguments)
    return (name_key[1], arguments_key[1]) if name_key and arguments_key else None


def _before(pieces: Sequence[CallPiece], slot: Slot) -> str:
    at = pieces.index(slot)
    before = pieces[at - 1] if at else ""
    return before if isinstance(before, str) else ""
