"""Searches the answers of a form for the most probable ones that the true schema accepts; asks the model nothing.

A validator is a black box that says what is wrong with a whole value. Four searches follow one another:

1. In falling order of probability, which finds the best where few answers have to change.
2. One refusal after another: which answers it depends on is found by changing one at a time, and the cheapest change of
   these that makes it another refusal is taken.
3. Guided by conflicts (conflict-directed A*, Williams and Ragno, 2007), for what is still more probable: candidates
   differ from a refused one in an answer that its refusal depends on, whatever else they hold.
4. From values of simple shape (all alike, all different, more of one answer), and from drawn ones.

What 2 and 4 find is made more probable by single changes, pairs exchanged and pairs that were refused together.
"""

from __future__ import annotations

import heapq
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, combinations, islice, product
from random import Random
from typing import Any, TypeAlias

import anyio
import anyio.lowlevel

from agentform.errors import Violation
from agentform.forms.answer import Answer, Answers, QuestionKey
from agentform.forms.beam_search import best_first
from agentform.forms.state import FormState
from agentform.schema.form import Path
from agentform.schema.validate import Validator

__all__ = ["AssignmentSearch", "Candidate"]

Ranks: TypeAlias = tuple[int, ...]
"""Per answer that may change, how many of its options are more probable than the one taken."""
_Refusal: TypeAlias = tuple[Violation, ...] | None
"""What is wrong with a candidate; `None` when it leaves something to be decided."""
_Conflict: TypeAlias = Mapping[int, int]
"""The places of answers that are refused together, and their ranks."""
_EXHAUSTIVE = 4_096
"""So few candidates are all tried."""
_MOST_NODES = 20_000
_MORE_NODES = 300
"""Of a guided search, and of one that only looks for something more probable than what is found already."""
_MOST_WHOLE = 64
"""Refusals of which it is not found out what they depend on."""
_MOST_STEPS = 150
_MOST_CHANGES = 64
"""Changes of the answers that one refusal depends on."""
_FEW_PLACES = 3
_DRAWS = 256
_GUIDED_SHARE = 0.3
_WALK_SHARE = 0.4
"""Of the time that is left when they begin."""
_BETWEEN_PAUSES = 32


@dataclass(frozen=True)
class Candidate:
    """Answers that the validator accepts, and the log probability that they give up."""

    state: FormState
    changed: tuple[Path, ...]
    gap: float


@dataclass
class AssignmentSearch:
    """Over the answers in `group`; all others stay as they are.

    `until` is a time of the event loop's clock.
    """

    validator: Validator
    state: FormState
    group: Answers
    until: float
    refusals: list[tuple[Violation, ...]] = field(default_factory=list[tuple[Violation, ...]])
    """What was wrong with each value that was refused."""
    _together: set[tuple[int, ...]] = field(default_factory=set[tuple[int, ...]])
    """Places of answers that were refused together."""
    _seen: dict[Ranks, _Refusal] = field(default_factory=dict[Ranks, "_Refusal"])

    def __post_init__(self) -> None:
        self._keys = list(self.group)
        self._order = [_by_probability(self.group[key]) for key in self._keys]
        self._costs = [_costs(self.group[key], order) for key, order in zip(self._keys, self._order, strict=True)]
        self._text = self.state.json_text if self.state.text_of(self.state.root) is not None else ""
        self._is_plain = bool(self._text) and all(
            kind == "value" and _is_there(json.loads(self._text), path) for path, kind in self._keys
        )

    async def probable(self, most: int) -> Candidate | None:
        """The most probable accepted candidate of the `most` most probable; of all, where they are few."""
        if math.prod(map(len, self._costs)) <= _EXHAUSTIVE and most:
            most = max(most, _EXHAUSTIVE)
        rows = [[-cost for cost in costs] for costs in self._costs]
        return await self._first(ranks for _, (ranks, _) in zip(range(most), best_first(rows), strict=False))

    async def walked(self) -> Candidate | None:
        """What is accepted after one refusal after another was changed, made as probable as single changes make it."""
        until = self._part(_WALK_SHARE)
        ranks, met, told = (0,) * len(self._keys), set[Ranks](), set[_Refusal]()
        while anyio.current_time() < until and len(met) < _MOST_STEPS:
            met.add(ranks)
            told.add(await self._check(ranks))
            conflict = await self._conflict(ranks, until)
            if len(conflict) == len(ranks) > _FEW_PLACES:
                return None
            self._together.add(tuple(conflict))
            onwards = await self._otherwise(ranks, conflict, met, told)
            if onwards is None:
                return None
            ranks = onwards
            if await self._is_accepted(ranks):
                return self._candidate(await self._improved(ranks))
        return None

    async def guided(self, *, below: float = math.inf) -> Candidate | None:
        """The first accepted candidate of a search that follows what refusals depend on, most probable first.

        Only what gives up less than `below` is looked for.
        """
        until, most = self._part(_GUIDED_SHARE), _MOST_NODES if math.isinf(below) else _MORE_NODES
        conflicts: list[_Conflict] = []
        heap: list[tuple[float, int, Ranks, frozenset[int]]] = [(0.0, 0, (0,) * len(self._keys), frozenset())]
        pushed, num_whole = 0, 0
        while heap and pushed < most and anyio.current_time() < until:
            cost, _, ranks, fixed = heapq.heappop(heap)
            conflict = next((known for known in conflicts if _holds(ranks, known)), None)
            if cost >= below:
                return None
            if conflict is None:
                if await self._is_accepted(ranks):
                    return self._candidate(ranks)
                conflicts.append(conflict := await self._conflict(ranks, until))
                num_whole += len(conflict) == len(ranks)
                if num_whole > _MOST_WHOLE:
                    return None  # nothing to follow: this would be falling probability once more
            for moved, then_fixed in self._away_from(conflict, ranks, fixed):
                pushed += 1
                extra = cost + self._costs[moved][ranks[moved] + 1] - self._costs[moved][ranks[moved]]
                heapq.heappush(heap, (extra, pushed, _with_rank(ranks, moved, ranks[moved] + 1), then_fixed))
        return None

    async def _otherwise(self, ranks: Ranks, conflict: _Conflict, met: set[Ranks], told: set[_Refusal]) -> Ranks | None:
        """The cheapest change of the answers in a conflict that is accepted, or refused for something new.

        Where there is none, the cheapest that is refused for something else.
        """
        refused, places, spare = await self._check(ranks), list(conflict), None
        rows = [[-cost for cost in self._costs[at]] for at in places]
        for picks, _ in islice(best_first(rows), _MOST_CHANGES):
            changed = list(ranks)
            for at, rank in zip(places, picks, strict=True):
                changed[at] = rank
            onwards = tuple(changed)
            verdict = await self._check(onwards)
            if verdict is not None and verdict not in told:
                return onwards
            if spare is None and onwards not in met and verdict not in (refused, None):
                spare = onwards
        return spare

    async def shaped(self) -> Candidate | None:
        """The first accepted value of simple shape, or drawn, made as probable as single changes make it."""
        found = await self._first(chain(self._shapes(), self._drawn()))
        if found is None:
            return None
        ranks = tuple(
            order.index(found.state.answers[key].index) for key, order in zip(self._keys, self._order, strict=True)
        )
        return self._candidate(await self._improved(ranks))

    async def _first(self, every: Iterator[Ranks]) -> Candidate | None:
        for ranks in every:
            if await self._is_accepted(ranks):
                return self._candidate(ranks)
            if self._is_late():
                break
        return None

    def _is_late(self) -> bool:
        return anyio.current_time() > self.until

    def _part(self, share: float) -> float:
        now = anyio.current_time()
        return now + share * (self.until - now)

    async def _is_accepted(self, ranks: Ranks) -> bool:
        return await self._check(ranks) == ()

    async def _check(self, ranks: Ranks) -> _Refusal:
        if ranks not in self._seen:
            if len(self._seen) % _BETWEEN_PAUSES == 0:
                await anyio.lowlevel.checkpoint()
            self._seen[ranks] = found = self._checked(ranks)
            if found:
                self.refusals.append(found)
        return self._seen[ranks]

    def _checked(self, ranks: Ranks) -> _Refusal:
        if self._is_plain:
            return self.validator.check(self._patched(ranks))
        candidate = self.state.with_answers(self._answers(ranks))
        return None if candidate.text_of(candidate.root) is None else self.validator.check(candidate.value)

    def _patched(self, ranks: Ranks) -> Any:
        """The value of a candidate that differs in values alone; read anew, as a validator may change what it gets."""
        whole = json.loads(self._text)
        for key, order, rank in zip(self._keys, self._order, ranks, strict=True):
            if order[rank] != self.state.answers[key].index:
                answer = self.group[key]
                whole = _with_value(whole, key[0], answer.question.answers[order[rank]])
        return whole

    def _answers(self, ranks: Ranks) -> dict[QuestionKey, Answer]:
        return {
            key: replace(self.group[key], index=order[rank])
            for key, order, rank in zip(self._keys, self._order, ranks, strict=True)
        }

    def _candidate(self, ranks: Ranks) -> Candidate:
        moved = self._answers(ranks)
        changed = tuple(key[0] for key, answer in moved.items() if answer.index != self.state.answers[key].index)
        return Candidate(self.state.with_answers(moved), changed, self._cost(ranks))

    def _cost(self, ranks: Ranks) -> float:
        return sum(costs[rank] for costs, rank in zip(self._costs, ranks, strict=True))

    async def _conflict(self, ranks: Ranks, until: float) -> _Conflict:
        """The answers on which a refusal depends: one other option of each changes it. All, where none does."""
        refused = await self._check(ranks)
        relevant = dict[int, int]()
        for at in range(len(ranks)):
            for other in range(len(self._costs[at])):
                changed = _with_rank(ranks, at, other)
                if other != ranks[at] and anyio.current_time() < until and await self._check(changed) != refused:
                    relevant[at] = ranks[at]
                    break
        return relevant or dict(enumerate(ranks))

    def _away_from(
        self, conflict: _Conflict, ranks: Ranks, fixed: frozenset[int]
    ) -> Iterator[tuple[int, frozenset[int]]]:
        """The ways to differ from a conflict, none of which holds what another does: the first to change, the rest."""
        held = fixed
        for at in conflict:
            if at not in fixed and ranks[at] + 1 < len(self._costs[at]):
                yield at, held
            held = held | {at}

    def _shapes(self) -> Iterator[Ranks]:
        """Values alike in all answers, each a step further than the one before, and the cheapest few of one kind."""
        sizes = [len(costs) for costs in self._costs]
        for option in range(max(sizes, default=0)):
            yield self._taking([min(option, size - 1) for size in sizes])
        for first in range(max(sizes, default=0)):
            yield self._taking([(first + at) % size for at, size in enumerate(sizes)])
        for option in range(min(max(sizes, default=0), 8)):
            yield from self._more_of(option)

    def _more_of(self, option: int) -> Iterator[Ranks]:
        ranks = (0,) * len(self._keys)
        prices = sorted(
            (self._costs[at][order.index(option)], at) for at, order in enumerate(self._order) if option in order
        )
        for _, at in prices:
            ranks = _with_rank(ranks, at, self._order[at].index(option))
            yield ranks

    def _taking(self, options: Sequence[int]) -> Ranks:
        return tuple(order.index(option) for order, option in zip(self._order, options, strict=True))

    def _drawn(self) -> Iterator[Ranks]:
        """Drawn by probability, flatter as it goes on; the same each time."""
        random = Random(0)
        for number in range(_DRAWS):
            flatness = 1 + 4 * number / _DRAWS
            yield tuple(
                random.choices(range(len(costs)), [math.exp(-cost / flatness) for cost in costs])[0]
                for costs in self._costs
            )

    async def _improved(self, ranks: Ranks) -> Ranks:
        """An accepted candidate after every change, of one answer or of two at once, that is accepted and gains."""
        while (better := await self._better(ranks)) is not None:
            ranks = better
        return ranks

    async def _better(self, ranks: Ranks) -> Ranks | None:
        cost = self._cost(ranks) - 1e-12
        for changed in self._steps(ranks):
            if self._is_late():
                break
            if self._cost(changed) < cost and await self._is_accepted(changed):
                return changed
        return None

    def _steps(self, ranks: Ranks) -> Iterator[Ranks]:
        for at in sorted(range(len(ranks)), key=lambda at: -self._costs[at][ranks[at]]):
            yield from (_with_rank(ranks, at, rank) for rank in range(ranks[at]))
        for one, other in (places for places in self._together if len(places) == 2):
            for first, second in product(range(len(self._costs[one])), range(len(self._costs[other]))):
                yield _with_rank(_with_rank(ranks, one, first), other, second)
        for one, other in combinations(range(len(ranks)), 2):
            first, second = self._order[one][ranks[one]], self._order[other][ranks[other]]
            if second in self._order[one] and first in self._order[other]:
                swapped = list(ranks)
                swapped[one], swapped[other] = self._order[one].index(second), self._order[other].index(first)
                yield tuple(swapped)


def _by_probability(answer: Answer) -> list[int]:
    return sorted(range(len(answer.probabilities)), key=lambda at: -answer.probabilities[at])


def _costs(answer: Answer, order: Sequence[int]) -> list[float]:
    of_all = answer.log_probabilities
    logs = [of_all[at] for at in order]
    return [logs[0] - log for log in logs]


def _holds(ranks: Ranks, conflict: _Conflict) -> bool:
    return all(ranks[at] == rank for at, rank in conflict.items())


def _with_rank(ranks: Ranks, at: int, rank: int) -> Ranks:
    return (*ranks[:at], rank, *ranks[at + 1 :])


def _is_there(whole: Any, path: Path) -> bool:
    try:
        for step in path:
            whole = whole[int(step) if isinstance(whole, list) else step]
    except (KeyError, IndexError, TypeError, ValueError):
        return False
    return True


def _with_value(whole: Any, path: Path, value: Any) -> Any:
    """The JSON value with another one at `path`; changes what is given."""
    if not path:
        return value
    place = whole
    for step in path[:-1]:
        place = place[int(step) if isinstance(place, list) else step]
    place[int(path[-1]) if isinstance(place, list) else path[-1]] = value
    return whole
