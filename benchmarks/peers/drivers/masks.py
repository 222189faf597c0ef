"""Writing under a mask on transformers' own `generate`: what xgrammar and llguidance have in common."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

from benchmarks.peers.drivers.prefix_cache import CachedModel
from benchmarks.peers.task import Model, Task, Written

__all__ = ["Masked"]

Processor = Callable[[dict[str, Any]], Any]
"""A fresh logits processor for a schema."""


class Masked:
    """Implements `Driver`, given how a schema becomes a logits processor."""

    def __init__(self, settings: dict[str, Any], prepare: Callable[[CachedModel], Processor]) -> None:
        self.settings = settings
        self._prepare = prepare

    def load(self, model: Model) -> None:
        """Load model and tokenizer, and make the grammar compiler."""
        self._model = CachedModel(model)
        self._processor = self._prepare(self._model)
        self.settings |= self._model.settings

    def run(self, task: Task) -> Written:
        """Generate; the grammar is compiled, or found compiled, within the time."""
        started = time.perf_counter()
        processors = [] if task.schema is None else [self._processor(task.schema)]
        out = self._model.generate(task.ids, max_tokens=task.max_tokens, processors=processors)
        text = self._model.tokenizer.decode(out, skip_special_tokens=True)
        return Written(
            text=text,
            seconds=time.perf_counter() - started,
            prompt_tokens=len(task.ids),
            cached_tokens=self._model.cached_tokens,
            completion_tokens=len(out),
            finish="length" if len(out) == task.max_tokens else "eos",
        )

    def prompt_ids(self, task: Task) -> list[int] | None:
        """The prompt's text as transformers tokenizes it, though it is given ids."""
        return list(self._model.tokenizer(task.prompt, add_special_tokens=False)["input_ids"])

    def close(self) -> None:
        """Nothing to end."""


def schema_text(schema: dict[str, Any]) -> str:
    """As both libraries take it, and as a key of what is compiled."""
    return json.dumps(schema, ensure_ascii=False)
