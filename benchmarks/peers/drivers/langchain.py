"""LangChain's own structured output: ChatOpenAI with a JSON Schema, on the OpenAI-compatible server of llama.cpp."""

from __future__ import annotations

import time
from typing import Any

from langchain_openai import ChatOpenAI

from benchmarks.peers.drivers.llama_cpp import LlamaServer
from benchmarks.peers.task import Model, Task, Written

__all__ = ["make"]


class LangChain:
    """Implements `Driver`."""

    def __init__(self) -> None:
        self._server = LlamaServer()
        self.settings: dict[str, Any] = {"method": "json_schema", "include_raw": True}

    def load(self, model: Model) -> None:
        """Start the server, and a client with a connection that is kept."""
        self._server.load(model)
        self._chat = ChatOpenAI(
            base_url=self._server.address + "/v1", api_key="none", model="smollm2", temperature=0, max_retries=0
        )
        self.settings |= {"server": self._server.settings}

    def run(self, task: Task) -> Written:
        """Messages in, the raw message and what LangChain parsed of it out."""
        # A limit given to `invoke` does not reach the model through `with_structured_output`.
        chat: Any = self._chat.model_copy(update={"extra_body": {"max_tokens": task.max_tokens}})
        if task.schema is not None:
            form = {"name": "answer", "schema": task.schema}
            chat = chat.with_structured_output(form, method="json_schema", include_raw=True)
        started = time.perf_counter()
        answer = chat.invoke(task.rendered)
        seconds = time.perf_counter() - started
        raw = answer["raw"] if task.schema is not None else answer
        usage = raw.usage_metadata or {}
        return Written(
            text=str(raw.content),
            seconds=seconds,
            prompt_tokens=usage.get("input_tokens"),
            cached_tokens=usage.get("input_token_details", {}).get("cache_read"),
            completion_tokens=usage.get("output_tokens"),
            finish=raw.response_metadata.get("finish_reason"),
        )

    def prompt_ids(self, task: Task) -> list[int] | None:
        """The messages as the server renders and tokenizes them."""
        rendered = self._server.post("/apply-template", {"messages": task.rendered})["prompt"]
        return self._server.tokenize(rendered)

    def close(self) -> None:
        """Nothing to end."""


def make() -> LangChain:
    """The driver."""
    return LangChain()
