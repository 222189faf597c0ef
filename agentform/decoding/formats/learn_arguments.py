"""Finds out how a template writes arguments: by rendering values of every type and comparing what stands there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product

from agentform.decoding.formats.probe import KEYS, Probe, ProbeCall, common_prefix, common_suffix
from agentform.decoding.formats.types import ArgumentStyle, Elements, JsonObject
from agentform.decoding.formats.values import BareValues, JsonValues, PythonValues, ValueSpelling
from agentform.messages import JsonValue

__all__ = ["Unlearnable", "learn_arguments"]

_ONE, _OTHER = KEYS
_VALUE, _NUMBER = "zqvalue", 77341
_OBJECT: JsonValue = {"zqz": "zqé", "zqa": [True, None]}
_NESTED: JsonValue = [7, _OBJECT, "zq's"]
_SPACINGS = ((", ", ": "), (",", ":"), (", ", ":"), (",", ": "))
_INDENTS = tuple((indent, base) for indent in (2, 4) for base in range(0, 17, 2))


class Unlearnable(Exception):
    """The template does not show how it writes calls; the message says what stood in the way."""


def learn_arguments(probe: Probe) -> ArgumentStyle:
    """The style of arguments.

    Raises:
        Unlearnable: the template does not show it.
    """
    arguments: Mapping[str, JsonValue] = {_ONE: "zqvalué", _OTHER: _NESTED}
    written = probe.called(ProbeCall(arguments=arguments))
    if written is None:
        raise Unlearnable("the template refuses a call")
    for values in _json_spellings():
        if written.count(values.write(arguments)) == 1:
            return JsonObject(values=values)
    if _VALUE not in (probe.called(ProbeCall(arguments={_ONE: _VALUE})) or ""):
        raise Unlearnable("the template leaves calls out")
    return _elements(probe)


def _json_spellings() -> Iterator[JsonValues]:
    for sort, ascii_only, (item, key) in product((False, True), (False, True), _SPACINGS):
        yield JsonValues(item_separator=item, key_separator=key, ensure_ascii=ascii_only, sort_keys=sort)
    for sort, ascii_only, (indent, base) in product((False, True), (False, True), _INDENTS):
        yield JsonValues(item_separator=",", indent=indent, base=base, ensure_ascii=ascii_only, sort_keys=sort)


def _elements(probe: Probe) -> Elements:
    """The template writes arguments one by one: what stands around keys and values, by rendering none, one and two."""
    text = _split(probe, _VALUE)
    number = _split(probe, _NUMBER)
    between, ordered = _between(probe)
    opening, rest = _opening(probe, text, between)
    close = number.after[: len(number.after) - len(rest)]
    string_close = text.after[: len(text.after) - len(rest)]
    if not number.after.endswith(rest) or not between.startswith(string_close) or not between.endswith(opening):
        raise Unlearnable("what stands around arguments differs from one to the next")
    found = Elements(
        open=opening,
        middle=number.middle,
        close=close,
        string_middle=text.middle,
        string_close=string_close,
        separator=between[len(string_close) : len(between) - len(opening)],
        sort_keys=ordered,
    )
    found = _with_spellings(probe, found, number.before, rest)
    if found.string_values is None and not found.string_close.strip():
        raise Unlearnable(
            "the template writes strings without a mark at their end, so that they cannot be told from it"
        )
    return found


class _Split:
    """What stands before a call's only argument, between its key and value, and after it."""

    def __init__(self, text: str, value: str) -> None:
        key = text.rfind(_ONE, 0, text.find(value))
        if key < 0:
            raise Unlearnable("the template writes no keys of arguments")
        start = text.index(value, key)
        self.before, self.middle, self.after = text[:key], text[key + len(_ONE) : start], text[start + len(value) :]


def _split(probe: Probe, value: JsonValue) -> _Split:
    text = probe.called(ProbeCall(arguments={_ONE: value}))
    if text is None or str(value) not in text:
        raise Unlearnable(f"the template writes no argument of the type {type(value).__name__}")
    return _Split(text, str(value))


def _between(probe: Probe) -> tuple[str, bool]:
    """From one value to the next key, and whether keys are sorted."""
    text = probe.called(ProbeCall(arguments={_ONE: _VALUE, _OTHER: _VALUE}))
    if text is None or text.count(_VALUE) != 2:
        raise Unlearnable("the template refuses a call with two arguments")
    end = text.index(_VALUE) + len(_VALUE)
    keys = sorted(((text.rfind(_ONE), _ONE), (text.rfind(_OTHER), _OTHER)))
    return text[end : keys[1][0]], keys[0][1] == _OTHER


def _opening(probe: Probe, text: _Split, between: str) -> tuple[str, str]:
    """What stands before a key as a part of its argument, and what follows all arguments of the call."""
    empty = probe.called(ProbeCall(arguments={}))
    if empty is not None:
        head = common_prefix(empty, text.before)
        rest = empty[len(head) :]
        if text.after.endswith(rest) and between.endswith(text.before[len(head) :]):
            return text.before[len(head) :], rest
    opening = common_suffix(text.before, between)
    return opening, text.after[len(between) - len(opening) :]


def _with_spellings(probe: Probe, style: Elements, before: str, rest: str) -> Elements:
    """The style with its spellings of strings, scalars and nested values."""

    def written(value: JsonValue, middle: str, close: str) -> str:
        text = probe.called(ProbeCall(arguments={_ONE: value})) or ""
        start, end = len(before + _ONE + middle), len(text) - len(close + rest)
        if not (text.startswith(before + _ONE + middle) and text.endswith(close + rest) and start <= end):
            raise Unlearnable(f"an argument of the type {type(value).__name__} is written in another way")
        return text[start:end]

    hard = "zq\"s'\\t\n<é>&"
    string = written(hard, style.string_middle, style.string_close)
    scalars = [written(value, style.middle, style.close) for value in (True, None, 1.5)]
    objects, lists = (written(value, style.middle, style.close) for value in (_OBJECT, _NESTED))
    quote = style.string_middle.removeprefix(style.middle)
    return Elements(
        open=style.open,
        middle=style.middle,
        close=style.close,
        string_middle=style.string_middle,
        string_close=style.string_close,
        separator=style.separator,
        string_values=_string_spelling(hard, string),
        scalars=_scalar_spelling(scalars, quote),
        objects=_container_spelling(_OBJECT, objects, quote),
        lists=_container_spelling(_NESTED, lists, quote),
        sort_keys=style.sort_keys,
    )


def _string_spelling(value: str, written: str) -> JsonValues | None:
    if written == value:
        return None
    for ascii_only in (False, True):
        spelling = JsonValues(ensure_ascii=ascii_only)
        if spelling.write(value)[1:-1] == written:
            return spelling
    raise Unlearnable("strings are escaped in a way of the template's own")


def _scalar_spelling(written: list[str], quote: str) -> ValueSpelling:
    spellings: tuple[ValueSpelling, ...] = (
        JsonValues(),
        PythonValues(),
        BareValues(quote=quote),
        BareValues(quote=quote, null="null"),
    )
    return _first(spellings, (True, None, 1.5), written)


def _container_spelling(value: JsonValue, written: str, quote: str) -> ValueSpelling:
    spellings: list[ValueSpelling] = [*_json_spellings(), PythonValues()]
    for keys, sort, null in product((False, True), (True, False), ("None", "null")):
        spellings.append(BareValues(quote=quote, quoted_keys=keys, sort_keys=sort, null=null))
    return _first(spellings, (value,), [written])


def _first(
    spellings: list[ValueSpelling] | tuple[ValueSpelling, ...], values: tuple[JsonValue, ...], written: list[str]
) -> ValueSpelling:
    for spelling in spellings:
        if [spelling.write(value) for value in values] == written:
            return spelling
    raise Unlearnable(f"values are spelt in a way of the template's own: {written[0][:40]!r}")
