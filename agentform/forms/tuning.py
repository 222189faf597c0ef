"""Finds how a model's options are best scored: lead-in, calibration and temperature, on a small labelled file."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import product

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
    """Every lead-in with every calibration, on the half that was tuned on."""
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
    engine: Engine, examples: Sequence[Example], *, on_progress: Callable[[int, int], None] = lambda done, of: None
) -> Tuned:
    """Try every lead-in and calibration; fit the temperature of the best.

    Every second example is held out.

    Raises:
        InvalidInput: there are fewer than four examples.
        EngineError: the engine cannot serve a request.
    """
    if len(examples) < 4:
        raise InvalidInput(f"tuning needs at least four examples; got {len(examples)}")
    scored: dict[LeadIn, list[_Scored]] = {lead_in: [] for lead_in in LEAD_INS}
    store = PriorStore()
    for number, (lead_in, example) in enumerate(product(LEAD_INS, examples), 1):
        scored[lead_in].append(await _score(engine, example, lead_in, store))
        on_progress(number, len(LEAD_INS) * len(examples))
    trials = [
        Trial(scoring=setting, accuracy=_accuracy(scored[setting.lead_in][::2], setting)) for setting in _settings()
    ]
    # On a tie the earlier setting wins: the simpler lead-in, the weaker correction.
    best = max(trials, key=lambda trial: trial.accuracy).scoring
    best = _with_temperature(best, scored[best.lead_in][::2])
    default = Scoring()
    return Tuned(
        scoring=best,
        trials=tuple(trials),
        held_out=_accuracy(scored[best.lead_in][1::2], best),
        held_out_default=_accuracy(scored[default.lead_in][1::2], default),
    )


def _settings() -> Iterable[Scoring]:
    for lead_in, strength in product(LEAD_INS, CALIBRATIONS):
        nothing = min(strength, Scoring().calibration_with_nothing)
        yield Scoring(lead_in=lead_in, calibration=strength, calibration_with_nothing=nothing)


async def _score(engine: Engine, example: Example, lead_in: LeadIn, store: PriorStore) -> _Scored:
    leaf = {"enum": list(example.options), "description": example.description}
    target = load({"type": "object", "properties": {example.field: leaf}, "required": [example.field]}, name="example")
    prompts = Prompts(engine, target, "")
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
    return sum(item.answer(scoring).index == item.gold for item in scored) / len(scored)


def _with_temperature(scoring: Scoring, scored: Sequence[_Scored]) -> Scoring:
    def surprise(temperature: float) -> float:
        setting = replace(scoring, temperature=temperature)
        return -sum(item.answer(setting).log_probabilities[item.gold] for item in scored)

    return replace(scoring, temperature=min(TEMPERATURES, key=surprise))
