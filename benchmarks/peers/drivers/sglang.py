"""SGLang's engine in this process, on the CPU, with xgrammar."""

from __future__ import annotations

import json
import os
import time
from typing import Any

from benchmarks.peers.task import Model, Task, Written

__all__ = ["make"]

_POOL_TOKENS = 8192


class SGLang:
    """Implements `Driver`."""

    def __init__(self) -> None:
        self.settings: dict[str, Any] = {
            "device": "cpu",
            "attention_backend": "torch_native",
            "sampling_backend": "pytorch",
            "grammar_backend": "xgrammar",
            "constrained_json_disable_any_whitespace": True,
            "disable_cuda_graph": True,
            "disable_overlap_schedule": True,
            "mem_fraction_static": 0.1,
            "max_total_tokens": _POOL_TOKENS,
        }

    def load(self, model: Model) -> None:
        """Start the engine and its scheduler."""
        os.environ["OMP_NUM_THREADS"] = str(model.threads)
        from sglang.srt.entrypoints.engine import Engine

        self._engine = Engine(model_path=model.folder, dtype="bfloat16", log_level="error", **self.settings)
        self.settings |= {"threads": model.threads, "dtype": "bfloat16"}

    def run(self, task: Task) -> Written:
        """One request of ids."""
        sampling: dict[str, Any] = {"max_new_tokens": task.max_tokens, "temperature": 0}
        if task.schema is not None:
            sampling["json_schema"] = json.dumps(task.schema, ensure_ascii=False)
        started = time.perf_counter()
        answer: Any = self._engine.generate(input_ids=task.ids, sampling_params=sampling)
        seconds = time.perf_counter() - started
        about = answer["meta_info"]
        return Written(
            text=answer["text"],
            seconds=seconds,
            prompt_tokens=about["prompt_tokens"],
            cached_tokens=about["cached_tokens"],
            completion_tokens=about["completion_tokens"],
            finish=str(about["finish_reason"]),
        )

    def prompt_ids(self, task: Task) -> list[int] | None:
        """It takes the ids as they are."""
        return None

    def close(self) -> None:
        """End the scheduler."""
        self._engine.shutdown()


def make() -> SGLang:
    """The driver."""
    return SGLang()
