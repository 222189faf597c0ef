"""The ways in which one question can be put without asking anything else.

Options are put in an order of their own, whatever the order they were given in, each time begun at another one; the
levels of a score also from the last to the first; and for yes or no the statement is also denied. The mean over the
ways leans to no position, and since the set of ways does not depend on the given order, neither does the answer.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from agentform.errors import InvalidInput
from agentform.forms.asked import Asked, OneOf, Score, YesNo
from agentform.messages import JsonValue
from agentform.schema.json_text import dumps

__all__ = ["Posing", "Symmetry", "some_of", "ways_of"]

Symmetry: TypeAlias = int | Literal["exact"]
"""Tokens that may be spent on further ways of putting a question, or all ways."""
_DENIED = "Is the answer to this question no?"


@dataclass(frozen=True, kw_only=True)
class Posing:
    """One question, put in one way."""

    question: str
    told: tuple[tuple[JsonValue, str], ...]
    """The options with what is said of each, in the order they stand in the prompt."""
    places: tuple[int, ...]
    """For each option of the question as it was asked, where in `told` it stands; two that are the same stand once."""

    @property
    def asked(self) -> OneOf:
        """The question as it is scored."""
        return OneOf(self.question, [option for option, _ in self.told], [said for _, said in self.told])

    def spread(self, log_scores: Sequence[float]) -> tuple[float, ...]:
        """From log scores of `told`, those of the options as asked; options that are the same share what theirs has."""
        sizes = Counter(self.places)
        return tuple(log_scores[place] - math.log(sizes[place]) for place in self.places)

    def placed(self, leans: Sequence[float]) -> tuple[float, ...]:
        """From label priors of `told`, those of the options as asked."""
        return tuple(leans[place] for place in self.places)


def ways_of(asked: Asked) -> list[Posing]:
    """Every way, the plainest first. The order in which options were given plays no part.

    Raises:
        InvalidInput: one option is given with two descriptions.
    """
    match asked:
        case YesNo():
            return _yes_no(asked)
        case Score():
            return _levels(asked)
        case OneOf():
            return _orders(asked)


def some_of(ways: Sequence[Posing], count: int) -> list[Posing]:
    """`count` of the ways, the first among them, the others as far apart as they come."""
    return [ways[at * len(ways) // count] for at in range(count)]


def _yes_no(asked: YesNo) -> list[Posing]:
    denied = f"{_DENIED} {asked.question}".rstrip()
    said, denial = ((True, asked.yes), (False, asked.no)), ((True, asked.no), (False, asked.yes))
    return [
        Posing(question=asked.question, told=said, places=(0, 1)),
        Posing(question=denied, told=denial, places=(1, 0)),
        Posing(question=asked.question, told=said[::-1], places=(1, 0)),
        Posing(question=denied, told=denial[::-1], places=(0, 1)),
    ]


def _levels(asked: Score) -> list[Posing]:
    """Both directions: numbers without a meaning are only listed the other way round."""
    told = tuple(asked.told)
    there = tuple(range(len(told)))
    if not any(said for _, said in told):
        ways = [(told, there), (told[::-1], there[::-1])]
    else:
        turned = tuple((number, said) for (number, _), (_, said) in zip(told, told[::-1], strict=True))
        ways = sorted([(told, there), (turned, there[::-1])], key=lambda way: [said for _, said in way[0]])
    return [Posing(question=asked.question, told=options, places=places) for options, places in ways]


def _orders(asked: OneOf) -> list[Posing]:
    said_of = dict[str, str]()
    for option, said in asked.told:
        if said_of.setdefault(dumps(option), said) != said:
            raise InvalidInput(f"option {option!r} is given twice, and not with the same description")
    same: dict[str, list[int]] = {}
    for at, (option, said) in enumerate(asked.told):
        same.setdefault(_meaning(option, said), []).append(at)
    groups = list(same.values()) if len(same) > 1 else [[at] for at in range(len(asked.told))]
    shown = sorted((min((_rank(asked, at), at) for at in group)[1], group) for group in groups)
    shown.sort(key=lambda item: _rank(asked, item[0]))
    return [_order(asked, shown[start:] + shown[:start]) for start in range(len(shown))]


def _order(asked: OneOf, shown: Sequence[tuple[int, Sequence[int]]]) -> Posing:
    place = {at: here for here, (_, group) in enumerate(shown) for at in group}
    return Posing(
        question=asked.question,
        told=tuple(asked.told[at] for at, _ in shown),
        places=tuple(place[at] for at in range(len(asked.told))),
    )


def _rank(asked: OneOf, at: int) -> tuple[str, str]:
    option, said = asked.told[at]
    return said, dumps(option)


def _meaning(option: JsonValue, said: str) -> str:
    """What two options have in common that are the same one: what is said of them, or their text where nothing is."""
    text = said or (option if isinstance(option, str) else dumps(option))
    kind = "said" if said else type(option).__name__
    return f"{kind} {' '.join(text.split())}"
