"""Which leaves depend on one another without saying so: measured on examples, pair by pair, in both directions.

Each closed leaf of a pair is scored with the other's most probable values in view. Where both directions agree on which
values go together, the pair is coupled: scored independently the two may contradict each other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import permutations
from statistics import fmean
from typing import TypeAlias

from agentform.decoding.limits import Limits
from agentform.decoding.session import Session
from agentform.errors import InvalidInput
from agentform.forms.answer import Answer, Question, assumed
from agentform.forms.association import ValueTable, agreement, centred, divergence, is_positive, named_cells, strength
from agentform.forms.fill import Prompts, as_messages
from agentform.forms.label_prior import PriorStore
from agentform.forms.questions import open_questions
from agentform.forms.scoring import Scoring, choose
from agentform.forms.state import FormState
from agentform.runtime.engine import Engine
from agentform.schema.form import Choice, Field, Record
from agentform.schema.target import Target

__all__ = ["Coupling", "missing", "probe"]

_NUM_BEST = 2
_NUM_OTHERS = 2
_LEAST_STRENGTH = 0.4
"""Nats. Of pairs that are independent by construction the strongest had 0.33; see docs/measurements.md."""
_LEAST_SHIFT = 0.05
"""Bits, beside that: a child that hardly moves does not contradict its parent."""
_LARGE_SHIFT = 0.3
"""Bits, where one direction is enough. Of independent pairs the largest had 0.20."""
_LEAST_CONTRAST = 0.05
"""Nats, where the names of the values say already that they belong together."""
_CHANCE = 0.05
"""Of naming one pair of a form by accident; shared by all its pairs."""


@dataclass(frozen=True, kw_only=True)
class Coupling:
    """How much knowing one field changes another. A pair of fields has two, one for either direction."""

    parent: str
    child: str
    declared: bool
    """Whether the form says so already, in either direction."""
    shift: float
    """Jensen-Shannon divergence of the child's distributions over the parent's values, in bits, mean over examples.

    0: the child does not care. 1: it takes another value for each of two parents.
    """
    changed: float
    """Share of the examples in which the child's best option differs between the parent's two best values."""
    turned: float
    """Share of the examples in which the child's best option is another one once the parent's is in view.

    High where the pair contradicts itself; but any words in front of an unsure question turn its answer too.
    """
    strength: float
    """What both directions agree on, in nats; the same for both."""
    named: bool
    """Whether a value of one names the other, as "Sports" does `is_sports`."""
    coupled: bool
    """Whether the pair is more than chance and repetition make of independent fields; the same for both directions."""


async def probe(
    engine: Engine,
    target: Target,
    examples: Sequence[str],
    *,
    on_progress: Callable[[int, int], None] = lambda done, of: None,
) -> list[Coupling]:
    """Measure every pair of top-level closed fields of the target on the texts; coupled pairs first, by strength.

    Of each pair both directions are there, the one in which the child is moved more before the other. Whether a pair
    is coupled shows on a dozen texts or more; fewer than four prove nothing.

    Raises:
        InvalidInput: there is no example, or fewer than two closed fields.
        EngineError: the engine cannot serve a request.
    """
    root = target.form.root
    fields = [f for f in root.fields if isinstance(f.node, Choice)] if isinstance(root, Record) else []
    if not examples or len(fields) < 2:
        raise InvalidInput("a probe needs at least one example and a form with at least two closed fields")
    pairs = {pair: _Pair(*pair) for pair in permutations((field.name for field in fields), 2)}
    probing = _Probing(engine=engine, target=target, fields={field.name: field for field in fields})
    for number, text in enumerate(examples, 1):
        for name, seen in (await probing.measure(text, number)).items():
            pairs[name].seen.append(seen)
        on_progress(number, len(examples))
    couplings = [_coupling(probing.fields, pair, pairs[pair.child, pair.parent]) for pair in pairs.values()]
    return sorted(couplings, key=_rank)


def _rank(coupling: Coupling) -> tuple[object, ...]:
    pair = sorted((coupling.parent, coupling.child))
    return (not coupling.coupled, -round(coupling.strength, 9), pair, -coupling.shift)


def missing(couplings: Sequence[Coupling]) -> list[Coupling]:
    """What to declare: of each coupled pair that is not declared the direction in which the child is moved more.

    The other direction where that would close a circle with what is suggested before it, neither where both would.
    """
    suggested: list[Coupling] = []
    parents: dict[str, set[str]] = {}
    for one in couplings:
        known = one.declared or any({one.parent, one.child} == {s.parent, s.child} for s in suggested)
        if one.coupled and not known and not _reaches(parents, one.parent, one.child):
            parents.setdefault(one.child, set()).add(one.parent)
            suggested.append(one)
    return suggested


def _reaches(parents: Mapping[str, set[str]], start: str, wanted: str) -> bool:
    return start == wanted or any(_reaches(parents, parent, wanted) for parent in parents.get(start, ()))


@dataclass(frozen=True, kw_only=True)
class _Seen:
    """One direction of a pair on one example: the child's answer alone, and under each of the parent's values."""

    alone: Answer
    values: Sequence[int]
    """Of the parent, the two most probable first."""
    under: Sequence[Answer]
    repeated: Sequence[Answer]
    """Under the same values of a field that means nothing; empty where the two differ in type."""


@dataclass(frozen=True)
class _Pair:
    parent: str
    child: str
    seen: list[_Seen] = field(default_factory=list[_Seen])

    def shifts(self) -> list[float]:
        return [_shift(seen.under) for seen in self.seen]

    def above_repeating(self) -> list[float]:
        return [_shift(seen.under) - (_shift(seen.repeated) if seen.repeated else 0.0) for seen in self.seen]

    def changed(self) -> float:
        return fmean(seen.under[0].index != seen.under[1].index for seen in self.seen)

    def turned(self) -> float:
        return fmean(seen.under[0].index != seen.alone.index for seen in self.seen)


def _coupling(fields: Mapping[str, Field], pair: _Pair, back: _Pair) -> Coupling:
    parent, child = fields[pair.parent], fields[pair.child]
    chance = _CHANCE / (len(fields) * (len(fields) - 1) / 2)
    both = list(zip(pair.seen, back.seen, strict=True))
    agreed = [agreement(_table(one.under, other.values), _turned(other.under, one.values)) for one, other in both]
    return Coupling(
        parent=pair.parent,
        child=pair.child,
        declared=pair.parent in child.depends_on or pair.child in parent.depends_on,
        shift=fmean(pair.shifts()),
        changed=pair.changed(),
        turned=pair.turned(),
        strength=strength(agreed),
        named=bool(_named(fields, pair) or _named(fields, back)),
        coupled=(max(map(fmean, (pair.shifts(), back.shifts()))) >= _LEAST_SHIFT and _is_strong(agreed, both, chance))
        or any(_is_large(one, chance / 2) or _is_borne_out(fields, one, chance / 2) for one in (pair, back)),
    )


def _shift(under: Sequence[Answer]) -> float:
    return divergence([answer.probabilities for answer in under])


def _is_large(pair: _Pair, chance: float) -> bool:
    """Whether the child is moved so much that it need not be seen from the other side too."""
    above = pair.above_repeating()
    return fmean(above) >= _LARGE_SHIFT and is_positive([shift - _LARGE_SHIFT / 2 for shift in above], chance)


def _is_strong(agreed: Sequence[float], both: Sequence[tuple[_Seen, _Seen]], chance: float) -> bool:
    repeated = [
        agreement(_table(one.repeated, other.values), _turned(other.repeated, one.values)) if one.repeated else 0.0
        for one, other in both
    ]
    above = [own - other for own, other in zip(agreed, repeated, strict=True)]
    return strength(agreed) >= _LEAST_STRENGTH and is_positive(agreed, chance) and is_positive(above, chance)


def _is_borne_out(fields: Mapping[str, Field], pair: _Pair, chance: float) -> bool:
    """Whether the child takes the values that the parent's name, and does so again and again."""
    named = _named(fields, pair)
    contrasts: list[float] = []
    for seen in pair.seen:
        table = centred(_table(seen.under, range(len(seen.alone.probabilities))))
        at = [table[row][j] for row, i in enumerate(seen.values) for j in range(len(table[row])) if (i, j) in named]
        contrasts += [fmean(at)] if at else []
    return bool(contrasts) and fmean(contrasts) >= _LEAST_CONTRAST and is_positive(contrasts, chance)


def _named(fields: Mapping[str, Field], pair: _Pair) -> set[tuple[int, int]]:
    parent, child = fields[pair.parent].node, fields[pair.child].node
    assert isinstance(parent, Choice)
    assert isinstance(child, Choice)
    return named_cells(parent, child) | {(i, j) for j, i in named_cells(child, parent)}


def _table(under: Sequence[Answer], columns: Sequence[int]) -> ValueTable:
    return [[answer.log_probabilities[index] for index in columns] for answer in under]


def _turned(under: Sequence[Answer], columns: Sequence[int]) -> ValueTable:
    return list(zip(*_table(under, columns), strict=True))


_Case: TypeAlias = tuple[str, str, bool]
"""Parent, child, and whether it is the parent's values under a key that means nothing."""


@dataclass(frozen=True, kw_only=True)
class _Probing:
    engine: Engine
    target: Target
    fields: Mapping[str, Field]
    store: PriorStore = field(default_factory=PriorStore)

    async def measure(self, text: str, number: int) -> dict[tuple[str, str], _Seen]:
        """Every field alone, then every one under the values of every other: two batches."""
        prompts = Prompts(self.engine, self.target, "")
        point, priors = prompts.point(as_messages(text)), prompts.priors(self.store)
        session, scoring = Session(self.engine, limits=Limits()), Scoring.of(self.engine)
        asked = [open_questions(FormState(root=self._record(_free(item))))[0] for item in self.fields.values()]
        answers = await choose(session, point, asked, scoring=scoring, priors=priors)
        alone = dict(zip(self.fields, answers, strict=True))
        values = {name: _values(answer, number, self._named(name)) for name, answer in alone.items()}
        cases = [(case, index) for case in self._cases() for index in values[case[0]]]
        follow = [self._asked_under(case, index) for case, index in cases]
        under: dict[_Case, list[Answer]] = {}
        for (case, _), answer in zip(
            cases, await choose(session, point, follow, scoring=scoring, priors=priors), strict=True
        ):
            under.setdefault(case, []).append(answer)
        return {
            (parent, child): _Seen(
                alone=alone[child],
                values=values[parent],
                under=under[parent, child, False],
                repeated=under.get((parent, child, True), ()),
            )
            for parent, child in permutations(self.fields, 2)
        }

    def _named(self, name: str) -> set[int]:
        """Values of the field that name another field or its values, or are named by them."""
        others = (_Pair(name, other) for other in self.fields if other != name)
        return {i for pair in others for i, _ in _named(self.fields, pair)}

    def _cases(self) -> list[_Case]:
        pairs = list(permutations(self.fields, 2))
        alike = [(parent, child, True) for parent, child in pairs if self._kind(parent) == self._kind(child) != "text"]
        return [(parent, child, False) for parent, child in pairs] + alike

    def _kind(self, name: str) -> str:
        node = self.fields[name].node
        assert isinstance(node, Choice)
        kinds = {type(option) for option in node.options}
        return "bool" if kinds == {bool} else "number" if kinds <= {int, float} else "text"

    def _asked_under(self, case: _Case, index: int) -> Question:
        """The child's question once a value of the parent is known."""
        parent, child = _free(self.fields[case[0]]), _free(self.fields[case[1]])
        if case[2]:
            parent = _nameless(parent, self.fields)
        record = self._record(parent, replace(child, depends_on=(parent.name,)))
        known = open_questions(FormState(root=record))[0]
        answers = {known.key: assumed(known, index)}
        return open_questions(FormState(root=record, answers=answers))[0]

    def _record(self, *kept: Field) -> Record:
        assert isinstance(self.target.form.root, Record)
        return replace(self.target.form.root, fields=kept)


def _free(item: Field) -> Field:
    """The field, asked whatever else the form says of it."""
    return replace(item, required=True, depends_on=())


def _nameless(parent: Field, fields: Mapping[str, Field]) -> Field:
    name = "x"
    while name in fields:
        name += "x"
    assert isinstance(parent.node, Choice)
    return replace(parent, name=name, node=replace(parent.node, path=(name,), description=""))


def _values(answer: Answer, number: int, named: set[int]) -> list[int]:
    """The two most probable values, and of the others two by turns, of those that name something where there are any.

    Those next to the best are too much like it to move anything.
    """
    order = sorted(range(len(answer.probabilities)), key=lambda i: -answer.probabilities[i])
    best, rest = order[:_NUM_BEST], sorted(order[_NUM_BEST:])
    others = [i for i in rest if i in named] if len(named.intersection(rest)) >= _NUM_OTHERS else rest
    start = number * _NUM_OTHERS
    return best + [others[(start + at) % len(others)] for at in range(min(_NUM_OTHERS, len(others)))]
