"""Regular expressions as JSON Schema means them (ECMA-262, Unicode), matched in linear time.

Schemas come from strangers. Their expressions are read by Python's parser and run by Rust's engine, which pydantic
brings along, or, where they look around or are too large for it, by a simulation with a budget of steps.
"""

from __future__ import annotations

import re
import sys
import unicodedata
import warnings
from functools import cache, lru_cache
from itertools import groupby
from typing import Protocol

from pydantic_core import SchemaError, SchemaValidator, core_schema

from agentform.schema.regex_simulation import PatternTooCostly, Simulation
from agentform.schema.regex_tree import parse, repetitions, rust_text

__all__ = ["MAX_PATTERN_CHARS", "PatternTooCostly", "RegularExpression", "compiled", "python_pattern"]

MAX_PATTERN_CHARS = 20_000
_MAX_EXPANDED_CHARS = 60_000
_SHORT_CHARS = 1_000
_MOST_STATES = 5_000
"""States of an automaton, its counts unrolled, up to which it is cheap to build."""

_STEP = re.compile(
    r"\\[pP]\{(?:[^}=]*=)?([^}]*)\}|\\c[A-Za-z]|\\[dDwW]|\\u\{([0-9A-Fa-f]+)\}|\\.|\[|\]|\$|\(\?<(?![=!])", re.S
)
_CLASSES = {"d": "0-9", "w": "A-Za-z0-9_"}
_LONG_NAMES = {
    "letter": "L", "lowercase_letter": "Ll", "uppercase_letter": "Lu", "titlecase_letter": "Lt", "mark": "M",
    "number": "N", "decimal_number": "Nd", "digit": "Nd", "punctuation": "P", "symbol": "S", "separator": "Z",
    "alphabetic": "L", "lowercase": "Ll", "uppercase": "Lu",
}  # fmt: skip


class RegularExpression(Protocol):
    """An expression that is ready to search texts."""

    def search(self, text: str) -> bool:
        """Whether it matches anywhere in the text.

        Raises:
            PatternTooCostly: that takes too many steps.
        """
        ...


def compiled(pattern: str) -> RegularExpression:
    """The expression, to be searched with; keys of objects and texts are matched alike.

    Raises:
        re.error: it is none, is very large, or has what no automaton knows, such as a backreference.
    """
    if len(pattern) > MAX_PATTERN_CHARS:
        raise re.error(f"{len(pattern):,} characters are over the limit of {MAX_PATTERN_CHARS:,}")
    text = python_pattern(pattern)
    return _short(text) if len(text) <= _SHORT_CHARS else _long(text)


def _compiled(text: str) -> RegularExpression:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # such as a bracket that a later Python may read otherwise
        tree, flags = parse(text)
    rust = rust_text(tree, flags)
    if rust is None or repetitions(tree) > _MOST_STATES:
        return Simulation(tree, flags)
    try:
        return _Rust(rust)
    except SchemaError:  # larger than that engine allows once it is unrolled
        return Simulation(tree, flags)


# What is kept is bounded by its size: few of the expressions that may be large.
_short = lru_cache(maxsize=1024)(_compiled)
_long = lru_cache(maxsize=32)(_compiled)


class _Rust:
    def __init__(self, text: str) -> None:
        self._native = SchemaValidator(core_schema.str_schema(pattern=text, regex_engine="rust-regex", strict=True))

    def search(self, text: str) -> bool:
        return self._native.isinstance_python(text)


@lru_cache(maxsize=256)
def python_pattern(pattern: str) -> str:
    r"""The expression in Python's words: `$` only at the very end, ASCII `\d` and `\w`, `\p{…}` as a class.

    Raises:
        re.error: it has a class that is not known, or is very large.
    """
    made: list[str] = []
    inside = False
    at = size = 0
    for found in _STEP.finditer(pattern):
        made += [pattern[at : found.start()], _step(found, inside)]
        size += len(made[-1])
        if size > _MAX_EXPANDED_CHARS:
            raise re.error(f"its classes hold more than {_MAX_EXPANDED_CHARS:,} characters")
        at = found.end()
        inside = (inside or found.group() == "[") and found.group() != "]"
    return "".join(made) + pattern[at:]


def _step(found: re.Match[str], inside: bool) -> str:
    text = found.group()
    match text[:2]:
        case "\\p" | "\\P" if found.group(1) is not None:
            return _bracketed(_category(found.group(1)), text[1] == "P", inside)
        case "\\d" | "\\w":
            return _bracketed(_CLASSES[text[1]], False, inside)
        case "\\D" | "\\W":
            return text if inside else _bracketed(_CLASSES[text[1].lower()], True, False)
        case "\\c":
            return f"\\x{ord(text[2]) % 32:02x}" if len(text) == 3 else text
        case "\\u" if found.group(2) is not None:
            if (code := int(found.group(2), 16)) > sys.maxunicode:
                raise re.error(f"there is no character {code:#x}")
            return re.escape(chr(code))
        case "\\/" | "\\-":
            return text
        case "(?":
            return "(?P<"
        case "$":
            return "$" if inside else r"\Z"
        case _:
            return text


def _bracketed(members: str, negated: bool, inside: bool) -> str:
    if inside and negated:
        raise re.error("a negated property inside brackets")
    return members if inside else f"[{'^' if negated else ''}{members}]"


def _category(name: str) -> str:
    """The members of a Unicode general category as ranges of a bracket expression."""
    runs = _runs(_LONG_NAMES.get(name.lower(), name))
    if not runs:
        raise re.error(f"the Unicode property {name!r} is not known")
    return "".join(f"\\U{first:08x}-\\U{last:08x}" for first, last in runs)


def _runs(category: str) -> list[tuple[int, int]]:
    """The code points of a category or of those that begin with its name, neighbours together."""
    made: list[tuple[int, int]] = []
    for kind, first, last in _all_runs():
        if kind.startswith(category):
            start = made.pop()[0] if made and made[-1][1] == first - 1 else first
            made.append((start, last))
    return made


@cache
def _all_runs() -> tuple[tuple[str, int, int], ...]:
    """Every code point once, in order: general category, first and last. To look at all takes half a second."""
    made: list[tuple[str, int, int]] = []
    first = 0
    for kind, codes in groupby(range(sys.maxunicode + 1), lambda code: unicodedata.category(chr(code))):
        last = first + sum(1 for _ in codes) - 1
        made.append((kind, first, last))
        first = last + 1
    return tuple(made)
