"""What is written down of a request while it is served: its times and tokens, and nothing that it said."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import MutableMapping
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import quote

from agentform.events import AnswerDelta, ArgumentDelta, Event, ReasoningDelta, ThoughtDelta
from agentform.messages import Usage
from agentform.serve.metrics import ServerMetrics

__all__ = ["AccessLog", "RequestRecord", "count_tokens", "record_of"]

AccessLog = Literal["text", "json", "off"]
_KEY = "agentform.record"
_LONGEST_PATH = 200
_WRITTEN = (AnswerDelta, ArgumentDelta, ReasoningDelta, ThoughtDelta)


@dataclass(kw_only=True)
class RequestRecord:
    """A request, and what has become of it so far."""

    method: str
    path: str
    """The route that serves it, or `other`."""
    asked_path: str
    """The path that the client named, without its query."""
    metrics: ServerMetrics
    status: int = 499
    id: str = field(default_factory=lambda: f"req_{uuid.uuid4().hex}")
    started: float = field(default_factory=time.perf_counter)
    queued_s: float | None = None
    first_token_s: float | None = None
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    ran: list[str] = field(default_factory=list[str])
    """Names of the server's own tools that were run."""
    is_done: bool = False
    _last_token: float = 0.0

    def put_into(self, scope: MutableMapping[str, Any]) -> None:
        """Make it known to what serves the request."""
        scope[_KEY] = self

    def admitted(self) -> None:
        """It waits no longer."""
        self.queued_s = time.perf_counter() - self.started
        self.metrics.queued(path=self.path, seconds=self.queued_s)

    def written(self, event: Event) -> None:
        """Note when text came: the first, and how long after the text before."""
        if not isinstance(event, _WRITTEN):
            return
        now = time.perf_counter()
        if self.first_token_s is None:
            self.first_token_s = now - self.started
            self.metrics.first_token(path=self.path, seconds=self.first_token_s)
        else:
            self.metrics.between_tokens(path=self.path, seconds=now - self._last_token)
        self._last_token = now

    def used(self, prompt: Usage, total: Usage) -> None:
        """Add the tokens of an answer."""
        self.metrics.tokens(prompt, total)
        self.prompt_tokens += prompt.prompt_tokens
        self.cached_tokens += prompt.cached_tokens or 0
        self.completion_tokens += total.completion_tokens

    def end(self) -> float:
        """Count it as ended; seconds since it began."""
        self.is_done = True
        seconds = time.perf_counter() - self.started
        self.metrics.request(path=self.path, status=self.status, seconds=seconds)
        return seconds

    def line(self, seconds: float, form: AccessLog) -> str:
        """One line for the log, whatever the path holds."""
        path = quote(self.asked_path, safe="/:")[:_LONGEST_PATH]
        if form == "text":
            tokens = f"prompt={self.prompt_tokens} cached={self.cached_tokens} completion={self.completion_tokens}"
            ran = f" ran={','.join(self.ran)}" if self.ran else ""
            return f"{self.id} {self.method} {path} {self.status} {seconds:.3f}s {tokens}{ran}"
        facts = {
            "request": self.id,
            "method": self.method,
            "path": path,
            "status": self.status,
            "seconds": round(seconds, 3),
            "queue_seconds": None if self.queued_s is None else round(self.queued_s, 3),
            "first_token_seconds": None if self.first_token_s is None else round(self.first_token_s, 3),
            "prompt_tokens": self.prompt_tokens,
            "cached_tokens": self.cached_tokens,
            "completion_tokens": self.completion_tokens,
        }
        facts |= {"ran": self.ran} if self.ran else {}
        return json.dumps(facts, separators=(",", ":"))


def record_of(scope: MutableMapping[str, Any]) -> RequestRecord | None:
    """The record of a request, where one is kept."""
    found = scope.get(_KEY)
    return found if isinstance(found, RequestRecord) else None


def count_tokens(scope: MutableMapping[str, Any], metrics: ServerMetrics, prompt: Usage, total: Usage) -> None:
    """Count the tokens of an answer, in the record of its request too where one is kept."""
    record = record_of(scope)
    if record is None:
        metrics.tokens(prompt, total)
    else:
        record.used(prompt, total)
