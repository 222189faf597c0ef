"""`python -m benchmarks.schemas.child ENGINE`: measures cases in a process of its own, for `Worker`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from benchmarks.common.processes import serve_pipes
from benchmarks.schemas.cases import Case, vocabulary_of
from benchmarks.schemas.engines import ENGINES
from benchmarks.schemas.measure import Grammatical, Whole, measure_form, measure_grammar
from benchmarks.schemas.workers import FORM

__all__ = ["Measured"]

_WARM_UP = Case(name="", schema={"type": "object"}, instances=(({}, True), ([], False)))


class Measured:
    """What the parent can ask: `load` first, with the tokenizer's JSON, then `run` with a case."""

    def __init__(self, engine: str) -> None:
        self._engine = engine
        self._measure: Callable[[Case], Grammatical | Whole] = measure_form

    def load(self, asked: dict[str, Any]) -> None:
        """Make the engine, and measure once what is not counted."""
        if self._engine != FORM:
            vocabulary = vocabulary_of(asked["tokenizer_json"])
            engine, own = ENGINES[self._engine](vocabulary), self._engine == "agentform"
            self._measure = lambda case: measure_grammar(engine, vocabulary, case, own=own)
        self._measure(_WARM_UP)

    def run(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Measure a case."""
        instances = tuple((value, valid) for value, valid in asked["instances"])
        return asdict(self._measure(Case(name=asked["name"], schema=asked["schema"], instances=instances)))


if __name__ == "__main__":
    measured = Measured(sys.argv[1])
    serve_pipes({"load": measured.load, "run": measured.run})
