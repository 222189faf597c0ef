"""guidance on a transformers model: its own loop, with forced tokens skipped and its own reuse of keys and values."""

from __future__ import annotations

import time
from typing import Any

import guidance
import torch
import transformers

from benchmarks.peers.task import Model, Task, Written

__all__ = ["make"]


class Guidance:
    """Implements `Driver`."""

    def __init__(self) -> None:
        self.settings: dict[str, Any] = {"enable_ff_tokens": True, "whitespace_flexible": False, "echo": False}

    def load(self, model: Model) -> None:
        """Load the model without anything that draws or records."""
        torch.set_num_threads(model.threads)
        self._tokenizer = transformers.AutoTokenizer.from_pretrained(model.folder)
        weights: Any = transformers.AutoModelForCausalLM.from_pretrained(model.folder, dtype=torch.bfloat16).eval()
        self._model = guidance.models.Transformers(
            weights, self._tokenizer, echo=False, enable_monitoring=False, enable_ff_tokens=True
        )
        self.settings |= {"dtype": "torch.bfloat16", "threads": model.threads}

    def run(self, task: Task) -> Written:
        """The prompt, then the JSON or text as guidance writes it."""
        asked = (
            guidance.gen("out", max_tokens=task.max_tokens, temperature=0.0)
            if task.schema is None
            else guidance.json("out", schema=task.schema, temperature=0.0, max_tokens=task.max_tokens, lenient=True)
        )
        started = time.perf_counter()
        done = self._model + task.prompt + asked
        text = str(done["out"])
        seconds = time.perf_counter() - started
        return Written(
            text=text,
            seconds=seconds,
            prompt_tokens=len(task.ids),
            completion_tokens=len(self._tokenizer(text, add_special_tokens=False)["input_ids"]),
        )

    def prompt_ids(self, task: Task) -> list[int] | None:
        """The prompt's text as guidance's engine tokenizes it."""
        engine: Any = self._model._interpreter.engine
        return list(engine.tokenizer.encode(task.prompt.encode()))

    def close(self) -> None:
        """Nothing to end."""


def make() -> Guidance:
    """The driver."""
    return Guidance()
