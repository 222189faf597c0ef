"""Engines in processes of their own: what hangs or crashes costs one case, not the run."""

from __future__ import annotations

import json
import multiprocessing
from collections.abc import Sequence
from multiprocessing.connection import Connection
from typing import Any

from agentform.grammar.vocabulary import Vocabulary
from benchmarks.schemas.cases import Case
from benchmarks.schemas.engines import ENGINES
from benchmarks.schemas.measure import Grammatical, Whole, measure_form, measure_grammar

__all__ = ["FORM", "Worker", "vocabulary_of"]

FORM = "form"
_START_S = 120.0
_WARM_UP = Case(name="", schema={"type": "object"}, instances=(({}, True), ([], False)))
_ENDS = ("<|im_end|>", "<|endoftext|>")


class Worker:
    """One process with one engine; it is ended when a case takes longer than `limit_s`, and started again."""

    def __init__(self, engine: str, tokenizer_json: str, *, limit_s: float) -> None:
        self._engine = engine
        self._tokenizer_json = tokenizer_json
        self._limit_s = limit_s
        self._start()

    def measure(self, cases: Sequence[Case]) -> list[Any]:
        """`Whole` for the form, `Grammatical` for a grammar engine; one for each case."""
        done: list[Any] = []
        while len(done) < len(cases):
            try:
                self._pipe.send(cases[len(done) :])
                while len(done) < len(cases) and self._pipe.poll(self._limit_s):
                    done.append(self._pipe.recv())
                reason = f"no answer within {self._limit_s:g} s"
            except (EOFError, OSError) as error:
                reason = f"the engine's process died: {error!r}"
            if len(done) < len(cases):
                done.append((Whole if self._engine == FORM else Grammatical)(error=reason))
                self.close()
                self._start()
        return done

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.join()
        self._pipe.close()

    def _start(self) -> None:
        spawning = multiprocessing.get_context("spawn")
        self._pipe, theirs = spawning.Pipe()
        self._process = spawning.Process(target=_serve, args=(theirs, self._engine, self._tokenizer_json), daemon=True)
        self._process.start()
        theirs.close()
        if not self._pipe.poll(_START_S) or self._pipe.recv() != "ready":
            raise RuntimeError(f"the process of {self._engine} did not start")


def vocabulary_of(tokenizer_json: str) -> Vocabulary:
    """The vocabulary of a tokenizer file, ended by its ChatML tokens."""
    added = json.loads(tokenizer_json)["added_tokens"]
    words = json.loads(tokenizer_json)["model"]["vocab"]
    size = max([item["id"] for item in added] + list(words.values())) + 1
    ends = [item["id"] for item in added if item["content"] in _ENDS]
    return Vocabulary(tokenizer_json, size=size, eos_ids=ends)


def _serve(pipe: Connection, engine: str, tokenizer_json: str) -> None:
    if engine == FORM:
        measure_form(_WARM_UP)
        pipe.send("ready")
        while True:
            for case in pipe.recv():
                pipe.send(measure_form(case))
    vocabulary = vocabulary_of(tokenizer_json)
    made = ENGINES[engine](vocabulary)
    measure_grammar(made, vocabulary, _WARM_UP, own=engine == "agentform")
    pipe.send("ready")
    while True:
        for case in pipe.recv():
            pipe.send(measure_grammar(made, vocabulary, case, own=engine == "agentform"))
