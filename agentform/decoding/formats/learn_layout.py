"""Finds out what a template writes around calls: from one call, from two, with text before them and in two turns."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Literal

from agentform.decoding.formats.learn_arguments import Unlearnable
from agentform.decoding.formats.probe import (
    KEYS,
    RESULT,
    TEXT,
    Probe,
    ProbeCall,
    common_prefix,
    common_suffix,
    second,
)
from agentform.decoding.formats.types import ArgumentStyle, CallLayout, CallPiece, Slot
from agentform.decoding.formats.write import arguments_text

__all__ = ["Around", "learn_layout", "turn_end"]

_END_MARK = re.compile(r"\s*(<[^<>\s]+>|\[[^\[\]\s]+\])")
_THOUGHT_FREE = re.compile(r"\s*(<[^<>\s/]*>\s*)?</[^<>\s]*>\s*")
_DIGIT = re.compile(r"\d")
_FIRST = ProbeCall(arguments={KEYS[0]: "zqvalue"})
_SECOND = second({KEYS[0]: "zqvalues"})


@dataclass(frozen=True, kw_only=True)
class Around:
    """Where an assistant's turn begins, in the text after the user's words."""

    prompt: str
    """The text up to where the model begins to write."""
    begin: int
    """Where the turn's own text begins; the prompt may have gone further and opened a thought."""
    empty_thought: str
    """What past turns hold where there was no thought."""


@dataclass(frozen=True, kw_only=True)
class _Written:
    """A call as it was written: the fixed texts between what differs."""

    literals: tuple[str, ...]
    slots: tuple[Slot, ...]


def learn_layout(probe: Probe, style: ArgumentStyle) -> tuple[CallLayout, Around, bool]:
    """The layout, where turns begin, and whether text beside calls is written before them.

    Raises:
        Unlearnable: the template does not show it.
    """
    one = probe.called(_FIRST)
    prompt = probe.prompt()
    if one is None or prompt is None:
        raise Unlearnable("the template refuses a call")
    around = _around(prompt, one, probe.said())
    lead = len(prompt) if one.startswith(prompt) else around.begin + len(around.empty_thought)
    tail = _tail(probe, style, one)
    first = _take_apart(one, lead, _FIRST, style, tail)
    layout, kept = _with_text(probe, _layout(probe, first, style, tail))
    return replace(layout, index=_index_scope(probe, layout)), around, kept


def _around(prompt: str, one: str, said: str | None) -> Around:
    begin = len(common_prefix(prompt, one, *([said] if said else [])))
    if one.startswith(prompt):
        return Around(prompt=prompt, begin=begin, empty_thought="")
    if said is not None and TEXT in said:
        empty = common_prefix(one[begin:], said[begin : said.index(TEXT)])
    else:
        found = _THOUGHT_FREE.match(one, begin)
        empty = found[0] if found else ""
    return Around(prompt=prompt, begin=begin, empty_thought=empty)


def turn_end(said: str | None, prompt: str | None = None) -> str:
    """The mark right after an answer's text; or the line that ends the user's messages as well, in `prompt`."""
    if said is None or TEXT not in said:
        return ""
    after = said[said.index(TEXT) + len(TEXT) :]
    found = _END_MARK.match(after)
    if found or prompt is None:
        return found[0] if found else ""
    return common_prefix(after, prompt).split("\n", 1)[0]


def _tail(probe: Probe, style: ArgumentStyle, one: str) -> str:
    """What follows the arguments of a turn's only call, up to the end of the turn."""
    written = arguments_text(style, _FIRST.arguments)
    if written not in one:
        raise Unlearnable("arguments are written in another way than they were")
    marks = [mark for mark in _turn_marks(probe.said(), probe.prompt()) if mark.strip()]
    if any(mark in written for mark in marks):  # it closes other things as well
        marks = _whole_end(probe)
    tail = one.partition(written)[2].partition(RESULT)[0]
    if any(mark in tail for mark in marks):
        return min((tail.partition(mark)[0] for mark in marks), key=len)
    others = (probe.called(_FIRST, results=False), probe.called(_FIRST, then=True))
    return common_prefix(tail, *(text.partition(written)[2] for text in others if text is not None and written in text))


def _whole_end(probe: Probe) -> list[str]:
    """All that ends a turn, from where what ends its text is over."""
    said, called = probe.said(then=False), probe.called(_FIRST, text=TEXT)
    if said is None or called is None or TEXT not in said or TEXT not in called:
        return []
    ends = said.partition(TEXT)[2]
    end = ends[len(common_prefix(ends, called.partition(TEXT)[2])) :]
    return [end] if end.strip() else []


def _turn_marks(said: str | None, prompt: str | None) -> tuple[str, str]:
    """What ends a turn, and what begins the next message right after it."""
    end = turn_end(said, prompt)
    if not end or said is None:
        return "", ""
    found = _END_MARK.match(said, said.index(TEXT) + len(TEXT) + len(end))
    return end, found[0] if found else ""


def _take_apart(text: str, start: int, call: ProbeCall, style: ArgumentStyle, tail: str) -> _Written:
    """The call that ends with `tail`, from `start` on."""
    written = arguments_text(style, call.arguments)
    at = text.index(written, start)
    after = at + len(written)
    places = [(at, after, Slot.ARGUMENTS)]
    for slot, value in ((Slot.NAME, call.name), (Slot.ID, call.id)):
        for begin, end in ((start, at), (after, after + len(tail))):
            found = re.compile(re.escape(value)).finditer(text, begin, end)
            places += [(each.start(), each.end(), slot) for each in found]
    places.sort()
    if not any(slot is Slot.NAME for _, _, slot in places):
        raise Unlearnable("the template does not write the name of a call")
    ends = [start, *(end for _, end, _ in places)]
    starts = [*(begin for begin, _, _ in places), after + len(tail)]
    literals = tuple(text[a:b] for a, b in zip(ends, starts, strict=True))
    return _Written(literals=literals, slots=tuple(slot for _, _, slot in places))


def _layout(probe: Probe, first: _Written, style: ArgumentStyle, tail: str) -> CallLayout:
    two = probe.called(_FIRST, _SECOND)
    if two is None or arguments_text(style, _SECOND.arguments) not in two or _SECOND.name not in two:
        return CallLayout(call=_pieces(first.literals, first.slots), max_calls=1)
    written, later = arguments_text(style, _FIRST.arguments), first.slots.index(Slot.ARGUMENTS) + 1
    end = two.index(written) + len(written) + sum(map(len, first.literals[later:-1]))
    end += sum(len(_FIRST.name if slot is Slot.NAME else _FIRST.id) for slot in first.slots[later:])
    other = _take_apart(two, end, _SECOND, style, tail)
    if other.slots != first.slots:
        raise Unlearnable("a second call is written in another order than the first")
    return _joined(first, other)


def _joined(first: _Written, other: _Written) -> CallLayout:
    """What the first and the second call have in common, and what stands between them."""
    lead, middle, tail = first.literals[0], other.literals[0], other.literals[-1]
    close = common_prefix(middle, tail)
    opening = _opening(lead, middle[len(close) :])
    fixed = [(lead[len(lead) - len(opening) :], opening), *zip(first.literals[1:-1], other.literals[1:-1], strict=True)]
    literals = [*(_numbered(a, b) for a, b in fixed), (close,)]
    pieces: list[CallPiece] = []
    for position, parts in enumerate(literals):
        pieces += [part for part in parts if part != ""]
        if position < len(first.slots):
            pieces.append(first.slots[position])
    return CallLayout(
        call=tuple(pieces),
        section_open=lead[: len(lead) - len(opening)],
        section_close=tail[len(close) :],
        between=middle[len(close) : len(middle) - len(opening)],
        first_index=1 if any("1" in {x for x, y in zip(a, b, strict=True) if x != y} for a, b in fixed) else 0,
    )


def _opening(lead: str, middle: str) -> str:
    """What both end with, but for the number of the call; as the second call has it."""
    suffix = common_suffix(_DIGIT.sub("#", lead), _DIGIT.sub("#", middle))
    return middle[len(middle) - len(suffix) :]


def _numbered(one: str, other: str) -> tuple[CallPiece, ...]:
    """A fixed text, with the number of the call in it where that is what differs."""
    if one == other:
        return (one,)
    differing = [at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b]
    if len(one) != len(other) or len(differing) != 1 or one[differing[0]] + other[differing[0]] not in ("01", "12"):
        raise Unlearnable("a second call is written in another way than the first")
    return one[: differing[0]], Slot.INDEX, one[differing[0] + 1 :]


def _pieces(literals: tuple[str, ...], slots: tuple[Slot, ...]) -> tuple[CallPiece, ...]:
    pieces: list[CallPiece] = []
    for position, literal in enumerate(literals):
        pieces += [literal] if literal else []
        pieces += [slots[position]] if position < len(slots) else []
    return tuple(pieces)


def _with_text(probe: Probe, layout: CallLayout) -> tuple[CallLayout, bool]:
    """The layout with what stands between text and calls, and whether text is written before calls at all."""
    text = probe.called(_FIRST, text=TEXT)
    slot = next(piece for piece in layout.call if isinstance(piece, Slot))
    value = {Slot.NAME: _FIRST.name, Slot.ID: _FIRST.id, Slot.INDEX: "0"}.get(slot, "")
    if text is None or TEXT not in text or not value:
        return replace(layout, before_after_text=layout.before), False
    start = text.index(TEXT) + len(TEXT)
    end = text.find(value, start)
    if end < 0:
        return replace(layout, before_after_text=layout.before), False
    lead = text[start:end]
    shared = common_suffix(layout.opening, lead)
    layout = _shortened(layout, len(layout.opening) - len(shared))
    return replace(layout, before_after_text=lead[: len(lead) - len(shared)]), True


def _shortened(layout: CallLayout, length: int) -> CallLayout:
    """So much of the opening moved before the calls, since it stands there only where no text does."""
    before, section = layout.opening[:length], layout.section_open
    if length <= len(section):
        return replace(layout, before=layout.before + before, section_open=section[length:])
    first = str(layout.call[0])
    moved, rest = first[: length - len(section)], first[length - len(section) :]
    call = (rest, *layout.call[1:]) if rest else layout.call[1:]
    return replace(layout, before=layout.before + before, section_open="", call=call, between=layout.between + moved)


def _index_scope(probe: Probe, layout: CallLayout) -> Literal["turn", "conversation"]:
    if Slot.INDEX not in layout.call:
        return "turn"
    text = probe.called_twice(_FIRST, _SECOND) or ""
    at = layout.call.index(Slot.INDEX)
    before = layout.call[at - 1] if at and isinstance(layout.call[at - 1], str) else ""
    numbers = re.findall(re.escape(str(before)) + r"(\d)", text)
    return "conversation" if len(set(numbers)) > 1 else "turn"
