"""Regular expressions as trees, and as text for the linear-time engine of Rust that pydantic brings along.

The tree is that of Python's own parser, which reads an expression and does not run it. To run it there, with
backtracking, takes time that grows exponentially with the text for one as short as `^(a+)+$`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

__all__ = [
    "LINE_END",
    "SPACES",
    "WORD",
    "Range",
    "RegexTree",
    "name_of",
    "operations",
    "parse",
    "ranges_of",
    "repetitions",
    "rust_text",
]

_parser: Any = re._parser  # type: ignore[attr-defined] # pyright: ignore

RegexTree: TypeAlias = Iterable[tuple[Any, Any]]
"""Operations in order, each with its operands, as Python's parser gives them."""
Range: TypeAlias = tuple[int, int]

LINE_END = ord("\n")
WORD: tuple[Range, ...] = ((0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A))
"""What `\\w` is in ECMA-262."""
SPACES: tuple[Range, ...] = (
    (0x09, 0x0D), (0x20, 0x20), (0xA0, 0xA0), (0x1680, 0x1680), (0x2000, 0x200A), (0x2028, 0x2029), (0x202F, 0x202F),
    (0x205F, 0x205F), (0x3000, 0x3000), (0xFEFF, 0xFEFF),
)  # fmt: skip
"""What `\\s` is in ECMA-262."""
_LAST = 0x10FFFF
_CATEGORIES: dict[str, tuple[Range, ...]] = {"DIGIT": ((0x30, 0x39),), "WORD": WORD, "SPACE": SPACES}
_PLACES = {
    "AT_BEGINNING": "\\A",
    "AT_BEGINNING_STRING": "\\A",
    "AT_END_STRING": "\\z",
    "AT_BOUNDARY": "(?-u:\\b)",
    "AT_NON_BOUNDARY": "(?-u:\\B)",
}
_REPEATS = frozenset({"MAX_REPEAT", "MIN_REPEAT"})
_LOOKS = frozenset({"ASSERT", "ASSERT_NOT"})
_KNOWN = frozenset({"LITERAL", "NOT_LITERAL", "IN", "ANY", "BRANCH", "SUBPATTERN", "AT"}) | _REPEATS | _LOOKS
_SURROGATES = (0xD800, 0xDFFF)


def parse(python_pattern: str) -> tuple[RegexTree, int]:
    """The tree of an expression in Python's words, and its flags.

    Raises:
        re.error: it is no expression, or has something that no automaton knows, such as a backreference.
    """
    parsed = _parser.parse(python_pattern)
    for name in operations(parsed):
        if name not in _KNOWN:
            raise re.error(f"{name.lower().replace('_', ' ')} cannot be matched in linear time")
    return parsed, parsed.state.flags


def operations(tree: RegexTree) -> Iterator[str]:
    """Names of all operations in the tree."""
    for operation, operands in tree:
        yield name_of(operation)
        for inner in _below(name_of(operation), operands):
            yield from operations(inner)


def repetitions(tree: RegexTree) -> int:
    """How many single characters the tree has when all its counts are unrolled."""
    total = 0
    for operation, operands in tree:
        name = name_of(operation)
        times = 1
        if name in _REPEATS:
            least, most = int(operands[0]), operands[1]
            times = max(least, 1) if most == _parser.MAXREPEAT else max(int(most), 1)
        total += times * max(1, sum(repetitions(inner) for inner in _below(name, operands)))
    return total


def name_of(operation: Any) -> str:
    """Such as `LITERAL`."""
    return str(operation)


def ranges_of(members: RegexTree) -> tuple[bool, list[Range]]:
    """Whether a class in brackets is negated, and the ranges of code points in it."""
    negated = False
    found: list[Range] = []
    for operation, operand in members:
        match name_of(operation):
            case "NEGATE":
                negated = True
            case "LITERAL":
                found.append((operand, operand))
            case "RANGE":
                found.append(tuple(operand))
            case _:
                found += _category(name_of(operand).removeprefix("CATEGORY_"))
    return negated, found


def rust_text(tree: RegexTree, flags: int) -> str | None:
    """The expression in Rust's words; `None` where it looks around, which that engine cannot."""
    if _LOOKS & set(operations(tree)):
        return None
    body = _sequence(tree, flags)
    return f"(?i:{body})" if flags & re.IGNORECASE else body


def _rust(name: str, operands: Any, flags: int) -> str:
    match name:
        case "LITERAL":
            return _class([(operands, operands)], negated=False)
        case "NOT_LITERAL":
            return _class([(operands, operands)], negated=True)
        case "IN":
            negated, ranges = ranges_of(operands)
            return _class(ranges, negated=negated)
        case "ANY":
            return "(?s:.)" if flags & re.DOTALL else "[^\\n]"
        case "BRANCH":
            return f"(?:{'|'.join(_sequence(arm, flags) for arm in operands[1])})"
        case "SUBPATTERN":
            _, added, removed, inner = operands
            text = _sequence(inner, (flags | added) & ~removed)
            words = ("i" if added & re.IGNORECASE else "") + ("-i" if removed & re.IGNORECASE else "")
            return f"(?{words}:{text})"
        case "AT":
            return _place(name_of(operands), flags)
        case _:
            least, most, inner = operands
            bounds = f"{{{least},{'' if most == _parser.MAXREPEAT else most}}}"
            return f"(?:{_sequence(inner, flags)}){bounds}"


def _sequence(tree: RegexTree, flags: int) -> str:
    return "".join(_rust(name_of(operation), operands, flags) for operation, operands in tree)


def _place(name: str, flags: int) -> str:
    if name == "AT_BEGINNING" and flags & re.MULTILINE:
        return "(?m:^)"
    if name not in _PLACES:
        raise re.error(f"{name.lower()} is not known")
    return _PLACES[name]


def _class(ranges: Iterable[Range], *, negated: bool) -> str:
    """A class; Rust's texts hold no surrogates, so they are left out."""
    low, high = _SURROGATES
    parts = [part for first, last in ranges for part in ((first, min(last, low - 1)), (max(first, high + 1), last))]
    text = "".join(f"\\x{{{first:x}}}-\\x{{{last:x}}}" for first, last in parts if first <= last)
    if text:
        return f"[{'^' if negated else ''}{text}]"
    return "(?s:.)" if negated else f"[^\\x{{0}}-\\x{{{_LAST:x}}}]"


def _category(name: str) -> list[Range]:
    known = _CATEGORIES.get(name.removeprefix("NOT_"))
    if known is None:
        raise re.error(f"the category {name.lower()} is not known")
    return _others(known) if name.startswith("NOT_") else list(known)


def _others(ranges: Iterable[Range]) -> list[Range]:
    made: list[Range] = []
    start = 0
    for first, last in sorted(ranges):
        if start < first:
            made.append((start, first - 1))
        start = last + 1
    return [*made, (start, _LAST)]


def _below(name: str, operands: Any) -> Iterable[RegexTree]:
    if name == "BRANCH":
        return operands[1]
    if name == "SUBPATTERN":
        return [operands[3]]
    if name in _LOOKS:
        return [operands[1]]
    return [operands[2]] if name in _REPEATS else []
