"""Which rules stand in the way where no candidate is accepted: the fewest of which each candidate breaks one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import combinations

from agentform.errors import Violation

__all__ = ["unsatisfied_rules"]

_MOST_RULES = 12
"""Rules among which pairs are looked for; beyond these the most frequent ones are taken, one after another."""


def unsatisfied_rules(refusals: Sequence[Sequence[Violation]]) -> tuple[Violation, ...]:
    """The smallest set of rules of which every refused candidate broke at least one; empty without a candidate."""
    broken = [frozenset((v.pointer, v.reason) for v in found) for found in refusals if found]
    counts = Counter(rule for found in broken for rule in found)
    frequent = [rule for rule, _ in counts.most_common(_MOST_RULES)]
    for size in (1, 2, 3):
        for rules in combinations(frequent, size):
            if broken and all(found & set(rules) for found in broken):
                return _as_violations(rules)
    return _as_violations(_greedy(broken))


def _greedy(broken: Sequence[frozenset[tuple[str, str]]]) -> list[tuple[str, str]]:
    """The rule that most of them broke, then the one that most of the others broke, and so on."""
    chosen: list[tuple[str, str]] = []
    left: Sequence[frozenset[tuple[str, str]]] = broken
    while left:
        most, times = Counter(rule for found in left for rule in found).most_common(1)[0]
        if times == 1:  # no two of them have a rule in common
            return [*chosen, *(next(iter(found)) for found in left)]
        chosen.append(most)
        left = _keeping(most, left)
    return chosen


def _keeping(rule: tuple[str, str], refused: Sequence[frozenset[tuple[str, str]]]) -> list[frozenset[tuple[str, str]]]:
    return [found for found in refused if rule not in found]


def _as_violations(rules: Sequence[tuple[str, str]]) -> tuple[Violation, ...]:
    return tuple(Violation(pointer=pointer, reason=reason) for pointer, reason in rules)
