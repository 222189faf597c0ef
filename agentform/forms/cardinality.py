"""Which options of a list are taken: the most probable set whose size is within its bounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from agentform.forms.json_pieces import MEMBER, Kind, member_key
from agentform.forms.scoring import Answer
from agentform.schema.form import Path, Subset

__all__ = ["best_subset", "within_bounds"]


def best_subset(probabilities: Sequence[float], *, least: int, most: int) -> tuple[bool, ...]:
    """The most probable set of independent members, given each one's probability, with `least` to `most` members.

    Exact: the probability of a set is the product over its members' odds, so the best set of any size holds the
    members of greatest odds.
    """
    ranked = sorted(range(len(probabilities)), key=lambda at: -probabilities[at])
    wanted = sum(p > 0.5 for p in probabilities)
    taken = set(ranked[: min(max(wanted, least), most)])
    return tuple(at in taken for at in range(len(probabilities)))


def within_bounds(
    subsets: Sequence[Subset], answers: Mapping[tuple[Path, Kind], Answer]
) -> dict[tuple[Path, Kind], Answer]:
    """The answers, with the members of every fully answered list changed to the best set within its bounds."""
    fitted = dict(answers)
    for subset in subsets:
        keys = [member_key(subset, at) for at in range(len(subset.options))]
        if all(key in answers for key in keys):
            odds = [answers[key].probabilities[MEMBER] for key in keys]
            taken = best_subset(odds, least=subset.min_items, most=subset.max_items)
            for key, member in zip(keys, taken, strict=True):
                fitted[key] = replace(answers[key], index=MEMBER if member else 1 - MEMBER)
    return fitted
