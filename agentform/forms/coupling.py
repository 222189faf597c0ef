"""Which leaves depend on one another without saying so: measured on examples, pair by pair.

For every pair of closed leaves, the second is scored with each of the first's most probable values in view. Where its
distribution moves, the pair is coupled: scored independently the two may contradict each other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from agentform.decoding.limits import Limits
from agentform.decoding.session import Session
from agentform.errors import InvalidInput
from agentform.forms.answer import Answer, Question
from agentform.forms.fill import Prompts, as_messages
from agentform.forms.label_prior import PriorStore
from agentform.forms.questions import open_questions
from agentform.forms.scoring import Scoring, choose
from agentform.forms.state import FormState
from agentform.runtime.engine import Engine
from agentform.schema.form import Choice, Record
from agentform.schema.target import Target

__all__ = ["Coupling", "probe"]

_NUM_VALUES = 3


@dataclass(frozen=True, kw_only=True)
class Coupling:
    """How much knowing one field changes another."""

    parent: str
    child: str
    declared: bool
    """Whether the form says so already, in either direction."""
    shift: float
    """Jensen-Shannon divergence of the child's distributions over the parent's values, in bits, mean over examples.

    0: the child does not care. 1: it takes another value for each of two equally likely parents.
    """
    changed: float
    """Share of the examples in which the child's best option differs between the parent's two best values."""


async def probe(
    engine: Engine,
    target: Target,
    examples: Sequence[str],
    *,
    on_progress: Callable[[int, int], None] = lambda done, of: None,
) -> list[Coupling]:
    """Measure every pair of top-level closed fields of the target on the texts; the strongest coupling first.

    Raises:
        InvalidInput: there is no example, or fewer than two closed fields.
    """
    root = target.form.root
    fields = [f for f in root.fields if isinstance(f.node, Choice)] if isinstance(root, Record) else []
    if not examples or len(fields) < 2:
        raise InvalidInput("a probe needs at least one example and a form with at least two closed fields")
    pairs = list(combinations([field.name for field in fields], 2))
    parents = {field.name: field.depends_on for field in fields}
    measured: dict[tuple[str, str], list[tuple[float, bool]]] = {pair: [] for pair in pairs}
    store = PriorStore()
    for number, text in enumerate(examples, 1):
        for pair, moved in (await _measure(engine, target, text, pairs, store)).items():
            measured[pair].append(moved)
        on_progress(number, len(examples))
    couplings = [
        Coupling(
            parent=parent,
            child=child,
            declared=parent in parents[child] or child in parents[parent],
            shift=sum(shift for shift, _ in measured[parent, child]) / len(examples),
            changed=sum(changed for _, changed in measured[parent, child]) / len(examples),
        )
        for parent, child in pairs
    ]
    return sorted(couplings, key=lambda coupling: -coupling.shift)


async def _measure(
    engine: Engine, target: Target, text: str, pairs: Sequence[tuple[str, str]], store: PriorStore
) -> dict[tuple[str, str], tuple[float, bool]]:
    prompts = Prompts(engine, target, "")
    point, priors = prompts.point(as_messages(text)), prompts.priors(store)
    session = Session(engine, limits=Limits())
    scoring = Scoring.of(engine)
    alone = {name: _only(target, name) for name in dict.fromkeys(name for pair in pairs for name in pair)}
    asked = [open_questions(FormState(root=record))[0] for record in alone.values()]
    first = dict(zip(alone, await choose(session, point, asked, scoring=scoring, priors=priors), strict=True))
    cases = [(pair, index) for pair in pairs for index in _best(first[pair[0]])]
    follow = [
        _asked_under(_only(target, child, parent), replace(first[parent], index=index))
        for (parent, child), index in cases
    ]
    answers = await choose(session, point, follow, scoring=scoring, priors=priors)
    measured: dict[tuple[str, str], tuple[float, bool]] = {}
    for pair in pairs:
        under = [answer for (of, _), answer in zip(cases, answers, strict=True) if of == pair]
        weights = [first[pair[0]].probabilities[index] for index in _best(first[pair[0]])]
        measured[pair] = _divergence(weights, [a.probabilities for a in under]), under[0].index != under[1].index
    return measured


def _best(answer: Answer) -> list[int]:
    order = sorted(range(len(answer.probabilities)), key=lambda i: -answer.probabilities[i])
    return order[:_NUM_VALUES]


def _asked_under(record: Record, parent: Answer) -> Question:
    """The question that is open once the parent's value is known."""
    return open_questions(FormState(root=record, answers={parent.question.key: parent}))[0]


def _only(target: Target, name: str, parent: str | None = None) -> Record:
    """The form reduced to one field, and to the one that it is made to depend on."""
    assert isinstance(target.form.root, Record)
    kept = [field for field in target.form.root.fields if field.name in (name, parent)]
    linked = [replace(f, required=True, depends_on=(parent,) if parent and f.name == name else ()) for f in kept]
    return replace(target.form.root, fields=tuple(linked))


def _divergence(weights: Sequence[float], rows: Sequence[Sequence[float]]) -> float:
    """Generalised Jensen-Shannon divergence in bits (Lin, 1991): entropy of the mixture less the mean entropy."""
    total = sum(weights)
    shares = [weight / total for weight in weights]
    mixture = [sum(share * p for share, p in zip(shares, column, strict=True)) for column in zip(*rows, strict=True)]
    return max(0.0, _entropy(mixture) - sum(s * _entropy(row) for s, row in zip(shares, rows, strict=True)))


def _entropy(row: Sequence[float]) -> float:
    return -sum(p * math.log2(p) for p in row if p > 0)
