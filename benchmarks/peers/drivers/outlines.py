"""Outlines on a transformers model, with its own default for JSON Schema."""

from __future__ import annotations

import json
import time
from typing import Any

import outlines
import transformers

from benchmarks.peers.drivers.prefix_cache import CachedModel
from benchmarks.peers.task import Model, Task, Written

__all__ = ["make"]

_WHITESPACE = r"[ ]?"
"""Outlines' own default."""


class Outlines:
    """Implements `Driver`."""

    def __init__(self) -> None:
        self.settings: dict[str, Any] = {"backend": "outlines_core", "whitespace_pattern": _WHITESPACE}
        self._generators: dict[str, Any] = {}

    def load(self, model: Model) -> None:
        """Load the model; without its chat template the prompt's text is taken as it is."""
        self._cached = CachedModel(model)
        self._tokenizer = transformers.AutoTokenizer.from_pretrained(model.folder)
        self._tokenizer.chat_template = None
        self._model = outlines.from_transformers(self._cached.model, self._tokenizer)
        self.settings |= self._cached.settings

    def run(self, task: Task) -> Written:
        """Generate; the schema is compiled the first time it is seen, within the time."""
        started = time.perf_counter()
        kept: list[Any] = []
        text = self._generator(task.schema)(
            task.prompt,
            max_new_tokens=task.max_tokens,
            do_sample=False,
            cache=self._cached.begin(task.ids),
            stopping_criteria=transformers.StoppingCriteriaList([_Keep(kept)]),
        )
        seconds = time.perf_counter() - started
        ids = kept[-1][0].tolist()
        self._cached.end(ids)
        return Written(
            text=text,
            seconds=seconds,
            prompt_tokens=len(task.ids),
            cached_tokens=self._cached.cached_tokens,
            completion_tokens=len(ids) - len(task.ids),
            finish="length" if len(ids) - len(task.ids) == task.max_tokens else "eos",
        )

    def prompt_ids(self, task: Task) -> list[int] | None:
        """The prompt's text as Outlines tokenizes it."""
        return self._model.tokenizer.encode(task.prompt)[0][0].tolist()

    def close(self) -> None:
        """Nothing to end."""

    def _generator(self, schema: dict[str, Any] | None) -> Any:
        if schema is None:
            return self._model
        key = json.dumps(schema, ensure_ascii=False)
        if key not in self._generators:
            form = outlines.types.JsonSchema(key, whitespace_pattern=_WHITESPACE)
            self._generators[key] = outlines.Generator(self._model, form)
        return self._generators[key]


class _Keep(transformers.StoppingCriteria):
    """Stops nothing; keeps the tokens, which Outlines gives back as text only."""

    def __init__(self, kept: list[Any]) -> None:
        self._kept = kept

    def __call__(self, input_ids: Any, scores: Any, **_: Any) -> Any:
        import torch

        self._kept[:] = [input_ids]
        return torch.zeros(input_ids.shape[0], dtype=torch.bool)


def make() -> Outlines:
    """The driver."""
    return Outlines()
