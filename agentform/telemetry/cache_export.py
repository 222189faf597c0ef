"""What an engine's cache does, for Prometheus; needs the optional package prometheus-client (extra "metrics")."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from agentform.runtime.cache.statistics import CacheStatistics
from agentform.telemetry.extras import needs

if TYPE_CHECKING:
    from prometheus_client.registry import CollectorRegistry

__all__ = ["COUNTERS", "GAUGES", "PREFIX", "export_cache"]

PREFIX = "agentform_cache_"
COUNTERS = {
    "requests": "Requests that were admitted.",
    "lookup_tokens": "Prompt tokens looked up in the cache.",
    "hit_tokens": "Prompt tokens that need not be computed.",
    "matched_tokens": "Prompt tokens whose KV was found.",
    "restored_tokens": "Prompt tokens that came through a snapshot.",
    "replayed_tokens": "Prompt tokens that ran again to rebuild a recurrent state.",
    "computed_tokens": "Tokens that went through the model.",
    "evicted_tokens": "Token positions that were evicted.",
    "evicted_snapshots": "Snapshots that were evicted.",
    "declined_snapshots": "Snapshots not taken for want of room.",
}
"""Fields of `CacheStatistics` that only grow."""
GAUGES = {
    "resident_tokens": "Token positions in the radix tree.",
    "resident_snapshots": "Snapshots in the radix tree.",
    "live_tokens": "Positions held by running requests.",
    "capacity_tokens": "Positions that exist.",
    "budget_bytes": "The memory budget.",
}
"""Fields of `CacheStatistics` that go up and down."""


def export_cache(
    statistics: Callable[[], CacheStatistics], *, model: str, registry: CollectorRegistry | None = None
) -> Callable[[], None]:
    """Register an engine's cache counters, labelled with `model`; returns a function that takes them back.

    `statistics` is `engine.statistics` and is called at each scrape. Without `registry` the process-wide one of
    prometheus-client is used.

    Raises:
        MissingDependency: prometheus-client is not installed.
    """
    with needs("metrics", "prometheus-client"):
        from prometheus_client import REGISTRY
    chosen = registry if registry is not None else REGISTRY
    collector = _Collector(statistics, model)
    chosen.register(collector)
    return lambda: chosen.unregister(collector)


class _Collector:
    def __init__(self, statistics: Callable[[], CacheStatistics], model: str) -> None:
        self._statistics = statistics
        self._model = model

    def collect(self) -> Iterable[Any]:
        """The metric families as they are now."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        now = self._statistics()
        for name, text in COUNTERS.items():
            family = CounterMetricFamily(PREFIX + name, text, labels=["model"])
            family.add_metric([self._model], getattr(now, name))
            yield family
        for name, text in GAUGES.items():
            gauge = GaugeMetricFamily(PREFIX + name, text, labels=["model"])
            gauge.add_metric([self._model], getattr(now, name))
            yield gauge
        misses = CounterMetricFamily(
            PREFIX + "misses", "Requests that were not fully cached, by reason.", labels=["model", "reason"]
        )
        for reason, num in now.misses.items():
            misses.add_metric([self._model, reason], num)
        yield misses
        yield self._memory(now, GaugeMetricFamily)

    def _memory(self, now: CacheStatistics, family: Any) -> Any:
        """The positions of the device by what they hold; together they are all that exist."""
        text = "Bytes of the device's positions by what they hold: tokens, snapshots, live (running requests) or free."
        gauge = family(PREFIX + "device_bytes", text, labels=["model", "kind"])
        held = {
            "tokens": now.resident_tokens,
            "snapshots": now.resident_snapshots * now.snapshot_positions,
            "live": now.live_tokens,
        }
        held["free"] = max(0, now.capacity_tokens - sum(held.values()))
        for kind, positions in held.items():
            gauge.add_metric([self._model, kind], positions * now.position_bytes)
        return gauge
