"""How strongly the values of two fields go together, from how each is scored with the other in view.

What stands before a question moves its answer, related or not: words are repeated, `true` follows `true`. What is
related is so from either side. So the log probabilities of either field under the other's values are centred over
both, which leaves what belongs to the combination alone, and only what both directions agree on counts.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from statistics import NormalDist, fmean, stdev
from typing import TypeAlias

from agentform.schema.form import Choice

__all__ = ["ValueTable", "agreement", "centred", "divergence", "is_positive", "named_cells", "strength"]

ValueTable: TypeAlias = Sequence[Sequence[float]]
"""`[parent's value, child's value]`."""
_LEAST_LETTERS = 4
_LEAST_VALUES = 4


def centred(rows: ValueTable) -> list[list[float]]:
    """The interaction of a table: what is left of each cell without the means of its row and its column."""
    columns = [fmean(column) for column in zip(*rows, strict=True)]
    mean = fmean(columns)
    return [[cell - fmean(row) - of + mean for cell, of in zip(row, columns, strict=True)] for row in rows]


def agreement(one: ValueTable, other: ValueTable) -> float:
    """Mean product of the interactions of two tables of the same cells, in square nats; 0 where they are unrelated."""
    pairs = zip(centred(one), centred(other), strict=True)
    return fmean(a * b for row, beside in pairs for a, b in zip(row, beside, strict=True))


def strength(agreements: Sequence[float]) -> float:
    """In nats, of the mean agreement over examples; 0 where the two directions do not agree."""
    return math.sqrt(max(0.0, fmean(agreements)))


def is_positive(values: Sequence[float], chance: float) -> bool:
    """Whether the mean is above 0 by more than falls to `chance`: Student's one-sided t test.

    Fewer than four values prove nothing.
    """
    if len(values) < _LEAST_VALUES:
        return False
    error = stdev(values) / math.sqrt(len(values))
    return fmean(values) > _quantile(1 - chance, len(values) - 1) * error


def _quantile(share: float, freedom: int) -> float:
    """Of Student's t, by the expansion around the normal quantile (Abramowitz and Stegun, 26.7.5)."""
    z = NormalDist().inv_cdf(share)
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / freedom + second / freedom**2 + third / freedom**3


def named_cells(parent: Choice, child: Choice) -> set[tuple[int, int]]:
    """Cells whose values name one another: `is_sports` true and the topic "Sports", "travel" and "travel_alert".

    Equal options name nothing: they are repeated, whatever they mean; nor does a word that most options have.
    """
    if sorted(map(str, child.options)) == sorted(map(str, parent.options)):
        return set()
    own, theirs = _option_words(parent), _option_words(child)
    about = _words(f"{child.path[-1]} {child.description}")
    return {
        (i, j)
        for i, words in enumerate(own)
        for j, other in enumerate(child.options)
        if words & (about if other is True else theirs[j])
    }


def _option_words(field: Choice) -> list[set[str]]:
    """Per option, its words, less those that more than half of the options have."""
    words = [_words(option) if isinstance(option, str) else set[str]() for option in field.options]
    counts = Counter(word for option in words for word in option)
    return [{word for word in option if 2 * counts[word] <= len(words)} for option in words]


def _words(text: str) -> set[str]:
    return {word for word in re.findall(r"[^\W\d_]+", text.casefold()) if len(word) >= _LEAST_LETTERS}


def divergence(rows: ValueTable) -> float:
    """Generalised Jensen-Shannon divergence of distributions in bits (Lin, 1991): entropy of the mixture less the mean.

    All rows weigh alike: weighed by the parent's probabilities it would be small wherever the parent is sure, which
    says nothing of how much the child depends on it.
    """
    mixture = [fmean(column) for column in zip(*rows, strict=True)]
    return max(0.0, _entropy(mixture) - fmean(map(_entropy, rows)))


def _entropy(row: Sequence[float]) -> float:
    return -sum(p * math.log2(p) for p in row if p > 0)
