"""What a server tells Prometheus: its requests, its queue, and the engine's cache."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from agentform.messages import Usage
from agentform.runtime.engine import Engine
from agentform.serve.admission import Admission
from agentform.telemetry import export_cache

__all__ = ["ServerMetrics"]

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
        running = Gauge("agentform_http_running", "Requests that are worked on.", registry=registry)
        running.set_function(lambda: admission.running)
        queued = Gauge("agentform_http_queued", "Requests that wait.", registry=registry)
        queued.set_function(lambda: admission.queued)

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
        return generate_latest(self._registry)
