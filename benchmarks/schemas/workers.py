"""Engines in processes of their own: what hangs or crashes costs one case, not the run."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.common.processes import Child, ChildFailed
from benchmarks.schemas.cases import Case
from benchmarks.schemas.measure import Grammatical, Whole

__all__ = ["FORM", "Worker"]

FORM = "form"
_START_S = 120.0


class Worker:
    """One process with one engine; it is ended when a case takes longer than `limit_s`, and started again."""

    def __init__(self, engine: str, tokenizer_json: str, *, limit_s: float) -> None:
        self._engine = engine
        self._tokenizer_json = tokenizer_json
        self._limit_s = limit_s
        self._folder = TemporaryDirectory()
        self._child = self._started()

    def measure(self, cases: Sequence[Case]) -> list[Any]:
        """`Whole` for the form, `Grammatical` for a grammar engine; one for each case."""
        return [self._one(case) for case in cases]

    def close(self) -> None:
        """End the process."""
        self._child.close()
        self._folder.cleanup()

    def _one(self, case: Case) -> Any:
        kind = Whole if self._engine == FORM else Grammatical
        try:
            return _read(kind, self._child.ask({"op": "run", **asdict(case)}, limit_s=self._limit_s))
        except ChildFailed as reason:
            self._child.close(grace_s=0)
            self._child = self._started()
            return kind(error=str(reason))

    def _started(self) -> Child:
        command = [sys.executable, "-m", "benchmarks.schemas.child", self._engine]
        child = Child(command, Path(self._folder.name, "log"))
        try:
            child.ask({"op": "load", "tokenizer_json": self._tokenizer_json}, limit_s=_START_S)
        except ChildFailed:
            child.close(grace_s=0)
            raise
        return child


def _read(kind: type[Any], said: dict[str, Any]) -> Any:
    """Lists of JSON are tuples again."""
    return kind(**{key: tuple(value) if isinstance(value, list) else value for key, value in said.items()})
