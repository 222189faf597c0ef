"""What a server tells Prometheus: its requests, its queue, and the engine's cache."""

from __future__ import annotations

import platform
from importlib.metadata import version

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info
from prometheus_client.exposition import choose_encoder

from agentform.messages import Usage
from agentform.runtime.engine import Engine
from agentform.serve.admission import Admission
from agentform.telemetry import export_cache

__all__ = ["ServerMetrics"]

_TOKEN_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
_SECONDS = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)


class ServerMetrics:
    """The metrics of one server, in a registry of their own."""

    def __init__(self, engine: Engine, admission: Admission) -> None:
        self._registry = registry = CollectorRegistry()
        export_cache(engine.statistics, model=engine.info.name, registry=registry)
        self._requests = Counter(
            "agentform_http_requests",
            "Requests by path and status; 499: the client went.",
            ["path", "status"],
            registry=registry,
        )
        self._seconds = Histogram(
            "agentform_http_request_seconds",
            "Time from a request to the end of its answer.",
            ["path"],
            registry=registry,
            buckets=_SECONDS,
        )
        self._tokens = Counter("agentform_http_tokens", "Tokens of served requests.", ["kind"], registry=registry)
        self._queue_s = self._histogram("queue_seconds", "Time that a request waited for others to end.", _SECONDS)
        self._first_s = self._histogram(
            "time_to_first_token_seconds", "Time from a request to the first text of its answer.", _SECONDS
        )
        self._between_s = self._histogram(
            "inter_token_seconds", "Time between a piece of an answer's text and the next.", _TOKEN_SECONDS
        )
        Info("agentform_build", "What is running.", registry=registry).info(
            {"version": version("agentform"), "python": platform.python_version(), "model": engine.info.name}
        )
        running = Gauge("agentform_http_running", "Requests that are worked on.", registry=registry)
        running.set_function(lambda: admission.running)
        queued = Gauge("agentform_http_queued", "Requests that wait.", registry=registry)
        queued.set_function(lambda: admission.queued)

    def _histogram(self, name: str, text: str, buckets: tuple[float, ...]) -> Histogram:
        return Histogram(f"agentform_http_{name}", text, ["path"], registry=self._registry, buckets=buckets)

    def queued(self, *, path: str, seconds: float) -> None:
        """Note how long a request waited."""
        self._queue_s.labels(path=path).observe(seconds)

    def first_token(self, *, path: str, seconds: float) -> None:
        """Note when the first text of an answer came."""
        self._first_s.labels(path=path).observe(seconds)

    def between_tokens(self, *, path: str, seconds: float) -> None:
        """Note how long text was waited for after the text before."""
        self._between_s.labels(path=path).observe(seconds)

    def request(self, *, path: str, status: int, seconds: float) -> None:
        """Count a request that has ended."""
        self._requests.labels(path=path, status=str(status)).inc()
        self._seconds.labels(path=path).observe(seconds)

    def tokens(self, prompt: Usage, total: Usage) -> None:
        """Count the tokens of an answer."""
        self._tokens.labels(kind="prompt").inc(prompt.prompt_tokens)
        self._tokens.labels(kind="cached").inc(prompt.cached_tokens or 0)
        self._tokens.labels(kind="completion").inc(total.completion_tokens)

    def text(self) -> bytes:
        """All metrics in Prometheus' text format."""
        return self.exposition("")[0]

    def exposition(self, accept: str) -> tuple[bytes, str]:
        """All metrics in the format that an `Accept` header asks for, Prometheus' text or OpenMetrics; and its type."""
        encode, content_type = choose_encoder(accept)
        return encode(self._registry), content_type
