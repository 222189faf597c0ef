"""Prompt styles, lead-ins, strengths and estimators of the prior, compared on raw scores that are measured once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from rich.progress import Progress

from agentform.runtime.engine import Engine
from benchmarks.common.items import Item
from studies.forms.lean import STRENGTHS, Row, Running, best, corrected, keep_null, prior_of
from studies.forms.scores import LogScores, prior_scores, score_item

__all__ = ["Estimator", "Recorded", "Rule", "accuracy_under", "record", "study_rows"]

Estimator = Literal["content_free", "running", "mixed"]
_MIX_WEIGHT = 5.0
"""Requests that the content-free prior counts for in the mixed estimate."""


@dataclass(frozen=True, kw_only=True)
class Rule:
    """How much of which prior is taken out."""

    strength: float
    """For leaves without a null option."""
    null_strength: float
    """For leaves with one."""
    keeps_null: bool = True
    estimator: Estimator = "content_free"

    @property
    def name(self) -> str:
        """The rule in a few words, as the result file has it."""
        null = "null kept" if self.keeps_null else "null corrected"
        return f"{self.estimator}, {null}, {self.strength:g} / {self.null_strength:g}"


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """Raw scores of one item under one style: per leaf the options' scores, and those of the content-free inputs."""

    item: Item
    scores: list[LogScores]
    prior: list[Row]


async def record(
    engine: Engine, items: Sequence[Item], prompt: str, leads: Sequence[str], progress: Progress
) -> dict[str, list[Recorded]]:
    """Per lead-in; the prior of a form is measured once."""
    priors: dict[Any, dict[str, list[Row]]] = {}
    found: dict[str, list[Recorded]] = {lead: [] for lead in leads}
    task = progress.add_task(f"{items[0].set} {prompt}" if items else prompt, total=len(items))
    for item in items:
        key = (item.form, tuple((f.name, f.options) for f in item.fields))
        if key not in priors:
            runs = await prior_scores(engine, item, prompt, leads)
            priors[key] = {lead: _priors(runs[lead], len(item.fields)) for lead in leads}
        scores = await score_item(engine, item, prompt, leads)
        for lead in leads:
            found[lead].append(Recorded(item=item, scores=scores[lead], prior=priors[key][lead]))
        progress.advance(task)
    return found


def _priors(runs: Sequence[Sequence[LogScores]], num_leaves: int) -> list[Row]:
    return [prior_of([run[leaf] for run in runs]) for leaf in range(num_leaves)]


def accuracy_under(rule: Rule, recorded: Sequence[Recorded]) -> float:
    """Share of right leaves, requests in the order given."""
    return float(np.mean(list(_right(rule, recorded))))


def _right(rule: Rule, recorded: Sequence[Recorded]) -> Iterator[bool]:
    running = Running(weight=_MIX_WEIGHT if rule.estimator == "mixed" else 0.0)
    for entry in recorded:
        for index, (field, scores) in enumerate(zip(entry.item.fields, entry.scores, strict=True)):
            prior = entry.prior[index]
            if rule.estimator != "content_free":
                prior = running.after((f"{entry.item.form} {field.name} {field.options}", index), scores, prior)
            has_null = any(option is None for option in field.options)
            lean = keep_null(prior, field.options) if rule.keeps_null else prior
            strength = rule.null_strength if has_null else rule.strength
            yield field.is_right(best(corrected(scores, lean, strength)))


def study_rows(recorded: Sequence[Recorded]) -> dict[str, float]:
    """Accuracy by rule, for every rule looked at."""
    return {rule.name: accuracy_under(rule, recorded) for rule in _rules()}


def _rules() -> Iterator[Rule]:
    for estimator in ("content_free", "running", "mixed"):
        for keeps in (True, False):
            for strength in STRENGTHS:
                yield Rule(strength=strength, null_strength=strength, keeps_null=keeps, estimator=estimator)
    for strength, null_strength in ((1.0, 0.7), (0.9, 0.7), (0.85, 0.7)):
        yield Rule(strength=strength, null_strength=null_strength)
