"""llama.cpp through xllamacpp: its server in this process, asked without HTTP."""

from __future__ import annotations

import json
import time
import urllib.request
from pathlib import Path
from typing import Any

import xllamacpp

from benchmarks.peers.task import Model, Task, Written

__all__ = ["LlamaServer", "make"]

_CONTEXT_TOKENS = 8192


class LlamaServer:
    """Implements `Driver`."""

    def __init__(self) -> None:
        self.settings: dict[str, Any] = {"json_schema": "grammar", "temperature": 0, "cache_prompt": True}

    def load(self, model: Model) -> None:
        """Load the GGUF."""
        params = xllamacpp.CommonParams()
        params.model.path = model.gguf
        params.n_ctx = _CONTEXT_TOKENS
        params.n_parallel = 1
        params.cpuparams.n_threads = model.threads
        params.cpuparams_batch.n_threads = model.threads
        params.n_threads_http = 2
        params.warmup = True
        self.server = xllamacpp.Server(params)
        self.settings |= {
            "weights": Path(model.gguf).name,
            "n_ctx": _CONTEXT_TOKENS,
            "n_parallel": 1,
            "threads": model.threads,
            "system_info": str(xllamacpp.get_system_info()),
        }

    def run(self, task: Task) -> Written:
        """A completion of the prompt's ids."""
        asked: dict[str, Any] = {
            "prompt": task.ids,
            "n_predict": task.max_tokens,
            "temperature": 0,
            "cache_prompt": True,
        }
        if task.schema is not None:
            asked["json_schema"] = task.schema
        started = time.perf_counter()
        answer = self.server.handle_completions(asked)
        seconds = time.perf_counter() - started
        return _written(answer, seconds)

    def prompt_ids(self, task: Task) -> list[int] | None:
        """The prompt's text as llama.cpp tokenizes it, though it is given ids."""
        return self.tokenize(task.prompt)

    def close(self) -> None:
        """Nothing to end."""

    @property
    def address(self) -> str:
        """Where the same server listens."""
        return str(self.server.listening_address)

    def tokenize(self, text: str) -> list[int]:
        """Its token ids, special tokens taken for what they are."""
        return list(self.post("/tokenize", {"content": text, "add_special": False, "parse_special": True})["tokens"])

    def post(self, path: str, body: dict[str, Any]) -> Any:
        """Ask one of the server's endpoints over HTTP."""
        request = urllib.request.Request(
            self.address + path,
            data=json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)


def _written(answer: dict[str, Any], seconds: float) -> Written:
    """Both of the server's layouts: its own and the one of OpenAI's completions."""
    if "code" in answer or "error" in answer:
        raise RuntimeError(json.dumps(answer)[:500])
    timings = answer.get("timings", {})
    choice = answer["choices"][0] if "choices" in answer else answer
    return Written(
        text=choice["text"] if "choices" in answer else answer["content"],
        seconds=seconds,
        prompt_tokens=timings["prompt_n"] + timings["cache_n"] if timings else None,
        cached_tokens=timings.get("cache_n"),
        completion_tokens=timings.get("predicted_n"),
        finish=str(choice.get("finish_reason") or choice.get("stop_type")),
    )


def make() -> LlamaServer:
    """The driver."""
    return LlamaServer()
