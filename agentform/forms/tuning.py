"""Finds how a model's options are best scored, on labelled examples: whether the fields are listed, the lead-in, the
calibration and the temperature.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import TypeAlias

from agentform.decoding.limits import Limits
from agentform.decoding.session import Session
from agentform.errors import InvalidInput
from agentform.forms.answer import Answer, Question
from agentform.forms.fill import Prompts
from agentform.forms.label_prior import PriorStore
from agentform.forms.prompt_style import LEAD_INS, LeadIn
from agentform.forms.questions import open_questions
from agentform.forms.scoring import Scoring, answer_from, choose
from agentform.forms.state import FormState
from agentform.messages import JsonValue, Message
from agentform.runtime.engine import Engine
from agentform.schema.target import load

__all__ = ["Example", "Trial", "Tuned", "tune"]

CALIBRATIONS = (0.0, 0.5, 0.7, 0.8, 0.9, 1.0)
_STANDARD_ERRORS = 2
TEMPERATURES = (0.5, 0.7, 1.0, 1.4, 2.0, 2.8, 4.0)


@dataclass(frozen=True, kw_only=True)
class Example:
    """A text, one closed field to fill from it, and the right option."""

    text: str
    field: str
    options: tuple[JsonValue, ...]
    gold: JsonValue
    description: str = ""

    def __post_init__(self) -> None:
        if self.gold not in self.options:
            raise InvalidInput(f"field {self.field!r}: the gold value {self.gold!r} is not among its options")
        if len(self.options) < 2:
            raise InvalidInput(f"field {self.field!r} needs at least two options")


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One setting and how often it was right."""

    scoring: Scoring
    accuracy: float


@dataclass(frozen=True, kw_only=True)
class Tuned:
    """The best setting on one half of the examples, and how it and the defaults do on the other half."""

    scoring: Scoring
    trials: tuple[Trial, ...]
    """Every lead-in that was tried with every calibration, fields listed or not, on the half that was tuned on."""
    held_out: float
    """Accuracy of the best setting on the other half."""
    held_out_default: float
    """Accuracy of the default setting there."""


@dataclass(frozen=True, kw_only=True)
class _Scored:
    question: Question
    raw: tuple[float, ...]
    lean: tuple[float, ...]
    gold: int

    def answer(self, scoring: Scoring) -> Answer:
        return answer_from(self.question, self.raw, self.lean, scoring)


async def tune(
    engine: Engine,
    examples: Sequence[Example],
    *,
    lead_ins: Sequence[LeadIn] = LEAD_INS,
    on_progress: Callable[[int, int], None] = lambda done, of: None,
) -> Tuned:
    """Try the default lead-in and these with every calibration, fields listed and not; fit the temperature of the best.

    Every second example is held out. Of few examples one setting of many is often better than another by chance: the
    defaults stay unless the best does better by more than two standard errors of the paired difference.

    Raises:
        InvalidInput: there are fewer than four examples.
        EngineError: the engine cannot serve a request.
    """
    if len(examples) < 4:
        raise InvalidInput(f"tuning needs at least four examples; got {len(examples)}")
    lead_ins = tuple(dict.fromkeys((Scoring().lead_in, *lead_ins)))
    ways = list(product((False, True), lead_ins))
    scored: dict[_AskedWay, list[_Scored]] = {way: [] for way in ways}
    store = PriorStore()
    for number, (way, example) in enumerate(product(ways, examples), 1):
        scored[way].append(await _score(engine, example, way, store))
        on_progress(number, len(ways) * len(examples))
    tried = {setting: scored[_way(setting)][::2] for setting in _settings(lead_ins)}
    trials = [Trial(scoring=setting, accuracy=_accuracy(rows, setting)) for setting, rows in tried.items()]
    # On a tie the earlier setting wins: the simpler lead-in, the weaker correction.
    best, default = max(trials, key=lambda trial: trial.accuracy).scoring, Scoring()
    if not _is_clearly_better(_hits(tried[best], best), _hits(tried[default], default)):
        best = default
    best = _with_temperature(best, tried[best])
    return Tuned(
        scoring=best,
        trials=tuple(trials),
        held_out=_accuracy(scored[_way(best)][1::2], best),
        held_out_default=_accuracy(scored[_way(default)][1::2], default),
    )


_AskedWay: TypeAlias = tuple[bool, LeadIn]
"""Whether fields are listed, and the lead-in: what the model has to be asked again for."""


def _way(scoring: Scoring) -> _AskedWay:
    return scoring.list_fields, scoring.lead_in


def _is_clearly_better(hits: Sequence[bool], others: Sequence[bool]) -> bool:
    gains = [hit - other for hit, other in zip(hits, others, strict=True)]
    mean = sum(gains) / len(gains)
    variance = sum((gain - mean) ** 2 for gain in gains) / len(gains)
    return mean > _STANDARD_ERRORS * math.sqrt(variance / len(gains))


def _settings(lead_ins: Sequence[LeadIn]) -> Iterable[Scoring]:
    for listed, lead_in, strength in product((False, True), lead_ins, CALIBRATIONS):
        nothing = min(strength, Scoring().calibration_with_nothing)
        yield Scoring(list_fields=listed, lead_in=lead_in, calibration=strength, calibration_with_nothing=nothing)


async def _score(engine: Engine, example: Example, way: _AskedWay, store: PriorStore) -> _Scored:
    listed, lead_in = way
    leaf = {"enum": list(example.options), "description": example.description}
    target = load({"type": "object", "properties": {example.field: leaf}, "required": [example.field]}, name="example")
    prompts = Prompts(engine, target, "", listed)
    questions = open_questions(FormState(root=target.form.root))
    scoring = Scoring(lead_in=lead_in, calibration=0)
    session = Session(engine, limits=Limits())
    point = prompts.point([Message(role="user", content=example.text)])
    [answer] = await choose(session, point, questions, scoring=scoring, priors=None)
    [lean] = await prompts.priors(store).of(session, questions, scoring)
    raw = tuple(math.log(max(p, 1e-300) * max(answer.legal_mass or 0.0, 1e-300)) for p in answer.raw_probabilities)
    gold = list(answer.question.answers).index(example.gold)
    return _Scored(question=answer.question, raw=raw, lean=lean, gold=gold)


def _accuracy(scored: Sequence[_Scored], scoring: Scoring) -> float:
    return sum(_hits(scored, scoring)) / len(scored)


def _hits(scored: Sequence[_Scored], scoring: Scoring) -> list[bool]:
    return [item.answer(scoring).index == item.gold for item in scored]


def _with_temperature(scoring: Scoring, scored: Sequence[_Scored]) -> Scoring:
    def surprise(temperature: float) -> float:
        setting = replace(scoring, temperature=temperature)
        return -sum(item.answer(setting).log_probabilities[item.gold] for item in scored)

    return replace(scoring, temperature=min(TEMPERATURES, key=surprise))
