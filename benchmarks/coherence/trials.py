"""JevBench's coherence trials, run in this process; `pip install jevbench` brings them."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any, TypeAlias

from agentform.errors import MissingDependency

__all__ = ["SEED", "SUITE", "Answering", "Coherence", "measure"]

SUITE = "jevbench-mini"
SEED = 0
_ENOUGH = 5
"""Tests of a relation that the suite asks for; in a part of its cases one is enough."""

Answering: TypeAlias = Callable[[Any, Mapping[str, Any]], dict[str, Any]]
"""(state, questions) to the bodies of System One's answers."""


@dataclass(frozen=True, kw_only=True)
class Coherence:
    """Shares of trials without a violation, from 0 to 1."""

    overall: float | None
    interval: tuple[float, float] | None
    """95%, over cases."""
    dimensions: Mapping[str, float]
    kinds: Mapping[str, float]
    """By group of relations."""
    relations: Mapping[str, float]
    trials: int
    failed: int


def measure(answer: Answering, *, name: str, num_cases: int | None) -> Coherence:
    """Run the suite, or the trials of a fixed random part of its cases.

    Raises:
        MissingDependency: jevbench is not installed.
    """
    try:
        jevbench, suites = import_module("jevbench"), import_module("jevbench.suites")
    except ImportError as error:
        raise MissingDependency("the coherence trials need jevbench: pip install jevbench") from error
    suite = suites.load_suite(SUITE)
    if num_cases is not None and num_cases < len(suite.cases):
        suite = replace(suite, cases=random.Random(SEED).sample(suite.cases, num_cases))
    whole = len(suite.cases) == len(suites.load_suite(SUITE).cases)
    model = jevbench.from_callable(answer, name=name)
    return _coherence(jevbench.evaluate(model, suite=suite, cache=":memory:", min_n=_ENOUGH if whole else 1))


def _coherence(report: Any) -> Coherence:
    return Coherence(
        overall=report.overall,
        interval=report.interval,
        dimensions=_measured(report.dimensions),
        kinds=_measured(report.groups),
        relations=_measured(report.relations),
        trials=len({row["trial_id"] for row in report.result["outcomes"]}),
        failed=len(report.errors),
    )


def _measured(scores: Mapping[str, float | None]) -> dict[str, float]:
    return {name: round(score, 4) for name, score in scores.items() if score is not None}
