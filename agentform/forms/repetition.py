"""Finds where a value that was cut off only repeated itself.

Small models fall into loops: a list, a text or a number goes on with the same again and again until its tokens run
out. What is written is then the beginning of a JSON value in which that list, text or number has no end yet, and at
least half of it is one period, repeated. Where something new was said to the end there is no loop.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from agentform.errors import InvalidInput
from agentform.schema.json_text import loads
from agentform.schema.tighten import BoundedKind, PathStep

__all__ = ["Loop", "RepeatedKey", "find_loop", "find_overflow", "find_repeated_key"]

_LEAST_PERIODS = 3
_LEAST_CHARACTERS = 16
_NUMBER_BOUND = {"minimum": -(2**53), "maximum": 2**53, "multipleOf": 1e-6}
"""For a number whose digits repeat: integers are exact up to there, and no grammar bounds digits otherwise."""

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*(?P<end>")?|[{}\[\]:,]|[^\s"{}\[\]:,]+', re.DOTALL)
_HEX = "[0-9a-fA-F]"
_CHARACTER = re.compile(
    rf"\\u[dD][89abAB]{_HEX}{{2}}\\u[dD][c-fC-F]{_HEX}{{2}}|\\u{_HEX}{{4}}|\\[^u]|[^\\]|(?P<cut>\\.*\Z)", re.DOTALL
)


@dataclass(frozen=True, kw_only=True)
class Loop:
    """A list, string or number that repeats itself."""

    steps: tuple[PathStep, ...]
    """The way to it from the whole value."""
    kind: BoundedKind
    bound: Mapping[str, float]
    """What keeps it from that, in JSON Schema's keywords.

    A list gets as many items as there were before one came again, a string its characters up to the end of the
    loop's first period, a number the range in which integers are exact, and six decimals.
    """


def find_loop(written: str) -> Loop | None:
    """The loop in which `written`, the beginning of a JSON text, was caught when it was cut off.

    The outermost one: a list of lists that are all alike loops as a whole.
    """
    opened = _opened(written)
    for depth, value in enumerate(opened):
        if value.kind == "object":
            continue
        bound = value.bound(written)
        if bound is not None:
            return Loop(steps=_steps(opened[:depth]), kind=value.kind, bound=bound)
    return None


@dataclass
class _Open:
    """A value whose end is not written."""

    kind: BoundedKind | Literal["object"]
    since: int
    """Where in the text the part begins that is not complete."""
    parts: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])
    """Items of a list, keys of an object, characters of a string or number: where each begins, and its text."""
    at_value: bool = False
    """In an object: whether the value of the last key is being written."""

    @property
    def step(self) -> PathStep:
        """The way to what is being written inside."""
        return len(self.parts) if self.kind == "array" else tuple(key for _, key in self.parts)

    def bound(self, written: str) -> dict[str, float] | None:
        """What would have ended it before its loop; `None` where there is none."""
        texts = [text for _, text in self.parts]
        loop = _loop(texts, [at for at, _ in self.parts], written, self.since)
        if loop is None:
            return None
        if self.kind == "array":
            return {"maxItems": 1 + max(map(texts.index, set(texts)))}
        return {"maxLength": sum(loop)} if self.kind == "string" else dict(_NUMBER_BOUND)


@dataclass(frozen=True, kw_only=True)
class RepeatedKey:
    """An object that names a key twice."""

    steps: tuple[PathStep, ...]
    """The way to it from the whole value."""
    keys: tuple[str, ...]
    """Its keys up to there, each once, in the order in which they were written."""


def find_repeated_key(written: str) -> RepeatedKey | None:
    """The first object in a JSON text, or in the beginning of one, that names a key twice."""
    for stack in _walk(written):
        keys = [key for _, key in stack[-1].parts] if stack and stack[-1].kind == "object" else []
        if keys and keys[-1] in keys[:-1]:
            return RepeatedKey(steps=_steps(stack[:-1]), keys=tuple(keys[:-1]))
    return None


def find_overflow(written: str) -> Loop | None:
    """The first number in a JSON text that is too large for a float, with a bound that is not."""
    for stack in _walk(written):
        here = stack[-1] if stack else None
        if here is not None and here.kind == "number" and _is_too_large(here.parts[0][1]):
            return Loop(steps=_steps(stack[:-1]), kind="number", bound=_NUMBER_BOUND)
    return None


def _is_too_large(number: str) -> bool:
    try:
        return math.isinf(float(number))
    except ValueError:  # no number, which no grammar lets pass
        return False


def _steps(stack: Sequence[_Open]) -> tuple[PathStep, ...]:
    return tuple(outer.step for outer in stack)


def _opened(text: str) -> list[_Open]:
    """All that is open at the end of the text, outermost first."""
    stack: list[_Open] = []
    for stack in _walk(text):
        here = stack[-1] if stack else None
        if here is not None and here.kind == "number":
            if here.since < len(text):
                continue
            return [*stack[:-1], _characters(text, here.parts[0][0], "number")]
    return [outer for outer in stack if outer.kind != "number"]


def _walk(text: str) -> Iterator[list[_Open]]:
    """What is open after each token, outermost first; a number is, with its text, right after its token.

    From a key on that is no JSON string nothing is: no grammar lets one pass, but not all is written under one.
    """
    stack: list[_Open] = []
    for token in _TOKEN.finditer(text):
        mark, here = token[0], stack[-1] if stack else None
        if mark in ("[", "{"):
            stack.append(_Open(kind="array" if mark == "[" else "object", since=token.end()))
        elif mark in ("]", "}"):
            del stack[-1:]
        elif here is not None and here.kind == "object" and not here.at_value:
            if token["end"]:
                if (key := _key(mark)) is None:
                    yield []
                    return
                here.parts.append((token.start(), key))
            here.at_value = mark == ":"
        elif mark.startswith('"') and not token["end"]:
            yield [*stack, _characters(text, token.start() + 1, "string")]
            return
        elif mark[0] in "-0123456789":
            yield [*stack, _Open(kind="number", since=token.end(), parts=[(token.start(), mark)])]
            continue
        elif mark == "," and here is not None:
            if here.kind == "array":
                here.parts.append((here.since, text[here.since : token.start()].strip()))
            here.since, here.at_value = token.end(), False
        yield stack


def _key(written: str) -> str | None:
    try:
        return str(loads(written))
    except InvalidInput:
        return None


def _characters(text: str, start: int, kind: BoundedKind) -> _Open:
    characters = list(_CHARACTER.finditer(text, start))
    cut = characters.pop().start() if characters and characters[-1]["cut"] else len(text)
    return _Open(kind=kind, since=cut, parts=[(match.start(), match[0]) for match in characters])


def _loop(texts: Sequence[str], starts: Sequence[int], written: str, since: int) -> tuple[int, int] | None:
    """Index of the part at which the loop starts, and its period in parts."""
    half, rest = len(written) // 2, written[since:].strip()
    if not starts or starts[0] > half:
        return None
    start = bisect_right(starts, half) - 1
    period = _least_period(texts[start:])
    while start and texts[start - 1] == texts[start - 1 + period]:
        start -= 1
    enough = len(texts) - start >= _LEAST_PERIODS * period and len(written) - starts[start] >= _LEAST_CHARACTERS
    return (start, period) if enough and texts[-period].startswith(rest) else None


def _least_period(texts: Sequence[str]) -> int:
    """From the longest border, by the failure function of Knuth, Morris and Pratt (1977)."""
    borders = [0]
    for text in texts[1:]:
        border = borders[-1]
        while border and text != texts[border]:
            border = borders[border - 1]
        borders.append(border + (text == texts[border]))
    return len(texts) - borders[-1]
