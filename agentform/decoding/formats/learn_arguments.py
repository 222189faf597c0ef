"""Finds out how a template writes arguments: by rendering values of every type and comparing what stands there."""

from __future__ import annotations

from collections.abc import Mapping

from agentform.decoding.formats.learn_values import NESTED, Unlearnable, Unquoted, json_spellings, with_values
from agentform.decoding.formats.probe import KEYS, Probe, ProbeCall, common_prefix, common_suffix
from agentform.decoding.formats.types import ArgumentStyle, Elements, JsonObject
from agentform.messages import JsonValue

__all__ = ["Unlearnable", "learn_arguments"]

_ONE, _OTHER = KEYS
_VALUE, _NUMBER = "zqvalue", 77341


def learn_arguments(probe: Probe) -> ArgumentStyle:
    """The style of arguments.

    Raises:
        Unlearnable: the template does not show it.
    """
    arguments: Mapping[str, JsonValue] = {_ONE: "zqvalué", _OTHER: NESTED}
    written = probe.called(ProbeCall(arguments=arguments))
    if written is None:
        raise Unlearnable("the template refuses a call")
    for values in json_spellings():
        if written.count(values.write(arguments)) == 1:
            return JsonObject(values=values)
    if _VALUE not in (probe.called(ProbeCall(arguments={_ONE: _VALUE})) or ""):
        raise Unlearnable("the template leaves calls out")
    return _elements(probe)


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
    close, _, key_end = close.partition(_ONE)
    found = Elements(
        open=opening,
        middle=number.middle,
        close=close,
        string_middle=text.middle,
        string_close=string_close.partition(_ONE)[0],
        key_end=key_end,
        separator=between[len(string_close) : len(between) - len(opening)],
        sort_keys=ordered,
    )
    found = with_values(probe, found, number.before, rest)
    if found.string_values is None and not found.string_close.strip():
        raise Unquoted(found)
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
    first, last = text.index(_VALUE), text.rindex(_VALUE)
    key, other = sorted((_ONE, _OTHER), key=lambda name: -text.rfind(name, 0, first))
    end = text.rfind(other, first, last)
    if end < 0:
        raise Unlearnable("the template writes no keys of arguments")
    # What closes a value may name its key.
    return text[first + len(_VALUE) : end].replace(key, _ONE), key == _OTHER


def _opening(probe: Probe, text: _Split, between: str) -> tuple[str, str]:
    """What stands before a key as a part of its argument, and what follows all arguments of the call."""
    empty = probe.called(ProbeCall(arguments={}))
    if empty is not None:
        head = common_prefix(empty, text.before)
        rest = empty[len(head) :]
        opening = text.before[len(head) :]
        # Where the end begins as a further argument would, more of what is before them is a part of each.
        if text.after.endswith(rest) and between.endswith(opening) and not (opening and rest.startswith(opening)):
            return opening, rest
    opening = common_suffix(text.before, between)
    return opening, text.after[len(between) - len(opening) :]
