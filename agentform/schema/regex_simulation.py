"""Runs a regular expression over sets of positions: no backtracking, and lookaround is just another condition.

The time is bounded by the size of the expression times that of the text for plain expressions, and by a budget of
steps for all: nested counts and lookaround multiply, but never go on without end.
"""

from __future__ import annotations

import re
from typing import Any

from agentform.schema.regex_tree import LINE_END, WORD, Range, RegexTree, name_of, ranges_of

__all__ = ["PatternTooCostly", "Simulation"]

_MAX_STEPS = 1_500_000
"""Positions visited while one text is searched, about a third of a second's worth."""
_STEPS_OF_A_CALL = 30


class PatternTooCostly(Exception):
    """The expression took more steps over one text than it may."""


class Simulation:
    """An expression that is ready to search texts; safe to share between threads."""

    def __init__(self, tree: RegexTree, flags: int) -> None:
        self._tree = tree
        self._flags = flags

    def search(self, text: str) -> bool:
        """Whether the expression matches anywhere in the text.

        Raises:
            PatternTooCostly: that could not be said within the budget of steps.
        """
        run = _PatternSearch([ord(char) for char in text])
        return bool(run.sequence(self._tree, frozenset(range(len(text) + 1)), self._flags))


class _PatternSearch:
    """One search. Every method maps the positions at which something may begin to those at which it may end."""

    def __init__(self, codes: list[int]) -> None:
        self._codes = codes
        self._steps = 0

    def sequence(self, tree: RegexTree, starts: frozenset[int], flags: int) -> frozenset[int]:
        for operation, operands in tree:
            if not starts:
                break
            starts = self._one(name_of(operation), operands, starts, flags)
        return starts

    def _one(self, name: str, operands: Any, starts: frozenset[int], flags: int) -> frozenset[int]:
        self._spend(len(starts))
        match name:
            case "BRANCH":
                return frozenset().union(*(self.sequence(arm, starts, flags) for arm in operands[1]))
            case "SUBPATTERN":
                _, added, removed, inner = operands
                return self.sequence(inner, starts, (flags | added) & ~removed)
            case "AT":
                return frozenset(at for at in starts if self._is_at(name_of(operands), at, flags))
            case "ASSERT" | "ASSERT_NOT":
                direction, inner = operands
                look = self._ahead if direction > 0 else self._behind
                return frozenset(at for at in starts if look(inner, at, flags) == (name == "ASSERT"))
            case "MAX_REPEAT" | "MIN_REPEAT":
                least, most, inner = operands
                return self._repeat(least, most, inner, starts, flags)
            case _:
                return self._character(name, operands, starts, flags)

    def _character(self, name: str, operands: Any, starts: frozenset[int], flags: int) -> frozenset[int]:
        negated, ranges = _class_of(name, operands, flags)
        ignores_case = bool(flags & re.IGNORECASE)
        here = (at for at in starts if at < len(self._codes))
        return frozenset(at + 1 for at in here if _holds(self._codes[at], ranges, ignores_case) != negated)

    def _repeat(self, least: int, most: int, inner: RegexTree, starts: frozenset[int], flags: int) -> frozenset[int]:
        for _ in range(least):
            ends = self.sequence(inner, starts, flags)
            if ends == starts:  # from here on every further time leads to the same
                break
            starts = ends
        reached, frontier, times = set(starts), starts, least
        while frontier and times < most:
            # what was reached in fewer times may go on longer, so that it need not be looked at again
            frontier = self.sequence(inner, frontier, flags) - reached
            reached |= frontier
            times += 1
        return frozenset(reached)

    def _ahead(self, inner: RegexTree, at: int, flags: int) -> bool:
        return bool(self.sequence(inner, frozenset({at}), flags))

    def _behind(self, inner: Any, at: int, flags: int) -> bool:
        least, most = inner.getwidth()
        starts = frozenset(range(max(0, at - most), at - least + 1))
        return any(at in self.sequence(inner, frozenset({start}), flags) for start in starts)

    def _is_at(self, name: str, at: int, flags: int) -> bool:
        match name:
            case "AT_BEGINNING" if flags & re.MULTILINE:
                return at == 0 or self._codes[at - 1] == LINE_END
            case "AT_BEGINNING" | "AT_BEGINNING_STRING":
                return at == 0
            case "AT_END_STRING":
                return at == len(self._codes)
            case _:
                return (self._is_word(at - 1) != self._is_word(at)) == (name == "AT_BOUNDARY")

    def _is_word(self, at: int) -> bool:
        return 0 <= at < len(self._codes) and _holds(self._codes[at], WORD, False)

    def _spend(self, steps: int) -> None:
        self._steps += steps + _STEPS_OF_A_CALL
        if self._steps > _MAX_STEPS:
            raise PatternTooCostly("the regular expression takes too long over this text")


def _class_of(name: str, operands: Any, flags: int) -> tuple[bool, list[Range]]:
    match name:
        case "LITERAL":
            return False, [(operands, operands)]
        case "NOT_LITERAL":
            return True, [(operands, operands)]
        case "ANY":
            return True, [] if flags & re.DOTALL else [(LINE_END, LINE_END)]
        case _:
            return ranges_of(operands)


def _holds(code: int, ranges: Any, ignores_case: bool) -> bool:
    if any(first <= code <= last for first, last in ranges):
        return True
    if not ignores_case:
        return False
    return any(_holds(ord(other), ranges, False) for other in chr(code).swapcase() if len(chr(code).swapcase()) == 1)
