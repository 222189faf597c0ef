"""Finds out how a template spells the values of arguments that it writes one by one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

from agentform.decoding.formats.probe import KEYS, Probe, ProbeCall, common_prefix, common_suffix
from agentform.decoding.formats.tags import TaggedValues
from agentform.decoding.formats.types import CDATA_CLOSE, CDATA_OPEN, Elements
from agentform.decoding.formats.values import BareValues, JsonValues, PythonValues, ValueSpelling
from agentform.messages import JsonValue
from agentform.schema.json_text import json_type

__all__ = ["NESTED", "Unlearnable", "Unquoted", "json_spellings", "with_values"]

_KEY = KEYS[0]
_OBJECT: JsonValue = {"zqz": "zqé", "zqa": [True, None]}
NESTED: JsonValue = [7, _OBJECT, "zq's"]
_TAGS: JsonValue = {"zqo": "zqone", "zql": ["zqtwo"]}
_HARD = "zq\"s'\\t\n<é>&"
_MARKS = "<>&\"'\n"
_SPACINGS = ((", ", ": "), (",", ":"), (", ", ":"), (",", ": "))
_INDENTS = tuple((indent, base) for indent in (2, 4) for base in range(0, 17, 2))


class Unlearnable(Exception):
    """The template does not show how it writes calls; the message says what stood in the way."""


class Unquoted(Unlearnable):
    """Calls are written with keywords, but strings without the quotes that the model writes."""

    def __init__(self, style: Elements) -> None:
        super().__init__("the template writes strings without a mark at their end, so that they cannot be told from it")
        self.style = style


def json_spellings() -> Iterator[JsonValues]:
    """JSON in every spacing that is known."""
    for sort, ascii_only, (item, key) in product((False, True), (False, True), _SPACINGS):
        yield JsonValues(item_separator=item, key_separator=key, ensure_ascii=ascii_only, sort_keys=sort)
    for sort, ascii_only, (indent, base) in product((False, True), (False, True), _INDENTS):
        yield JsonValues(item_separator=",", indent=indent, base=base, ensure_ascii=ascii_only, sort_keys=sort)


@dataclass(frozen=True)
class _InCall:
    """Values as the template writes them in a call whose only argument they are."""

    probe: Probe
    style: Elements
    before: str
    rest: str

    def between(self, value: JsonValue, close: str) -> str:
        """From the argument's key to what closes the value."""
        text = self.probe.called(ProbeCall(arguments={_KEY: value})) or ""
        head, tail = self.before + _KEY, close + self.rest
        if not (text.startswith(head) and text.endswith(tail) and len(head) + len(tail) <= len(text)):
            raise Unlearnable(f"an argument of the type {json_type(value)} is written in another way")
        return text[len(head) : len(text) - len(tail)]

    def value(self, value: JsonValue) -> str:
        """The value's own text."""
        is_string = isinstance(value, str)
        written = self.between(value, self.style.close_of(_KEY, is_string=is_string))
        middle = self.middle(value)
        if not written.startswith(middle):
            raise Unlearnable(f"an argument of the type {json_type(value)} is written in another way")
        return written[len(middle) :]

    def middle(self, value: JsonValue) -> str:
        """What stands before the value: as before a number, but for the word for its type."""
        style = self.style
        if isinstance(value, str):
            return style.string_middle
        written = self.between(value, style.close_of(_KEY, is_string=False))
        if written.startswith(style.middle):
            return style.middle
        begin = common_prefix(style.middle, style.string_middle)
        end = common_suffix(style.middle, style.string_middle)
        at = written.find(end, len(begin)) if end else -1
        return written[: at + len(end)] if at >= 0 and written.startswith(begin) else style.middle

    @property
    def writes_nulls(self) -> bool:
        """Whether an argument that is null is written at all."""
        empty = self.probe.called(ProbeCall(arguments={}))
        return empty is None or self.probe.called(ProbeCall(arguments={_KEY: None})) != empty


def with_values(probe: Probe, style: Elements, before: str, rest: str) -> Elements:
    """The style with its spellings of strings, scalars and nested values; `before` a key and after all (`rest`).

    Raises:
        Unlearnable: the template spells them in a way that is not known.
    """
    style = replace(style, nulls=_InCall(probe, style, before, rest).writes_nulls)
    shown = _InCall(probe, style, before, rest)
    scalars: Sequence[JsonValue] = (True, None, 1.5) if style.nulls else (True, 1.5)
    style = replace(style, middles=_middles(shown, (*scalars, _OBJECT, NESTED)))
    quote = style.string_middle.removeprefix(style.middle)
    escapes, cdata = _strings(shown)
    return replace(
        style,
        string_values=escapes,
        cdata=cdata,
        scalars=_scalar_spelling(scalars, [shown.value(value) for value in scalars], quote),
        objects=_container_spelling(shown, _OBJECT, quote),
        lists=_container_spelling(shown, NESTED, quote),
    )


def _middles(shown: _InCall, values: Sequence[JsonValue]) -> tuple[tuple[str, str], ...]:
    found = ((json_type(value), shown.middle(value)) for value in values)
    return tuple((kind, middle) for kind, middle in found if middle != shown.style.middle)


def _strings(shown: _InCall) -> tuple[JsonValues | None, str]:
    """How strings are escaped, and the characters for which they stand in a CDATA section."""
    written = shown.value(_HARD)
    if written == _HARD:
        return None, ""
    for ascii_only in (False, True):
        spelling = JsonValues(ensure_ascii=ascii_only)
        if spelling.write(_HARD)[1:-1] == written:
            return spelling, ""
    if written == CDATA_OPEN + _HARD + CDATA_CLOSE:
        texts = {mark: f"zq{mark}q" for mark in _MARKS}
        return None, "".join(mark for mark, text in texts.items() if shown.value(text) != text)
    raise Unlearnable("strings are escaped in a way of the template's own")


def _scalar_spelling(values: Sequence[JsonValue], written: list[str], quote: str) -> ValueSpelling:
    spellings: tuple[ValueSpelling, ...] = (
        JsonValues(),
        PythonValues(),
        BareValues(quote=quote),
        BareValues(quote=quote, null="null"),
    )
    return _first(spellings, values, written)


def _container_spelling(shown: _InCall, value: JsonValue, quote: str) -> ValueSpelling:
    spellings: list[ValueSpelling] = [*json_spellings(), PythonValues()]
    for keys, sort, null in product((False, True), (True, False), ("None", "null")):
        spellings.append(BareValues(quote=quote, quoted_keys=keys, sort_keys=sort, null=null))
    return _first([*spellings, *_tagged(shown.value(_TAGS))], (value,), [shown.value(value)])


def _tagged(written: str) -> Iterator[TaggedValues]:
    """Tags within tags, as an object with a list in it shows them."""
    opening, _, rest = written.partition("zqo")
    middle, _, rest = rest.partition("zqone")
    close, _, rest = rest.partition("zqo")
    end, found, rest = rest.partition(opening + "zql" + middle + opening)
    item = rest.partition(middle)[0]
    if found and opening and middle:
        yield TaggedValues(open=opening, middle=middle, close=close, end=end, item=item)


def _first(spellings: Sequence[ValueSpelling], values: Sequence[JsonValue], written: list[str]) -> ValueSpelling:
    for spelling in spellings:
        if [spelling.write(value) for value in values] == written:
            return spelling
    raise Unlearnable(f"values are spelt in a way of the template's own: {written[0][:40]!r}")
