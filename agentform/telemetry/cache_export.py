"""What an engine's cache does, for Prometheus; needs the optional package prometheus-client (extra "metrics")."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from agentform.runtime.cache.statistics import CacheStatistics
from agentform.runtime.cache.working_set import WorkingSet, rounded_distance
from agentform.telemetry.extras import needs, registering

if TYPE_CHECKING:
    from prometheus_client.registry import CollectorRegistry

__all__ = [
    "COUNTERS",
    "FIRST_USE",
    "GAUGES",
    "PREFIX",
    "SIZES",
    "TIER_COUNTERS",
    "TIER_GAUGES",
    "export_cache",
    "export_caches",
]

PREFIX = "agentform_cache_"
FIRST_USE = "first"
"""In place of a distance."""
COUNTERS = {
    "requests": "Requests that were admitted.",
    "lookup_tokens": "Prompt tokens looked up in the cache.",
    "hit_tokens": "Prompt tokens that need not be computed.",
    "matched_tokens": "Prompt tokens whose KV was found.",
    "restored_tokens": "Prompt tokens that came through a snapshot.",
    "resumed_tokens": "Prompt tokens whose recurrent state was still live.",
    "replayed_tokens": "Prompt tokens that ran again to rebuild a recurrent state.",
    "refreshed_tokens": "Prompt tokens that ran again to warm up a restored state.",
    "computed_tokens": "Tokens that went through the model.",
    "evicted_tokens": "Token positions that were evicted.",
    "evicted_snapshots": "Snapshots that were evicted.",
    "declined_snapshots": "Snapshots not taken for want of room.",
}
"""Fields of `CacheStatistics` that only grow."""
GAUGES = {
    "resident_tokens": "Token positions in the radix tree.",
    "resident_snapshots": "Snapshots in the radix tree.",
    "snapshot_bytes": "Bytes of one snapshot.",
    "live_tokens": "Positions held by running requests.",
    "capacity_tokens": "Positions that exist.",
    "position_bytes": "Bytes of a position.",
    "snapshot_positions": "Positions that one snapshot takes.",
    "budget_bytes": "The memory budget.",
}
"""Fields of `CacheStatistics` that go up and down."""
SIZES = ("position_bytes", "snapshot_positions", "snapshot_bytes")
"""Of them those that do not add up over models."""
TIER_GAUGES = {
    "tokens": "Tokens whose KV a tier holds.",
    "snapshots": "Snapshots that a tier holds.",
    "used_bytes": "Bytes that a tier uses.",
    "limit_bytes": "Bytes that a tier may use.",
}
"""Fields of `TierStatistics` that go up and down."""
TIER_COUNTERS = {
    "hits": "Prompts that something was fetched for from a tier.",
    "fetched_tokens": "Tokens that came to the device from a tier.",
}
"""Fields of `TierStatistics` that only grow."""


def export_cache(
    statistics: Callable[[], CacheStatistics], *, model: str, registry: CollectorRegistry | None = None
) -> Callable[[], None]:
    """Register an engine's cache counters, labelled with `model`; returns a function that takes them back.

    `statistics` is `engine.statistics` and is called at each scrape. Without `registry` the process-wide one of
    prometheus-client is used.

    Raises:
        InvalidInput: the registry has a cache already; `export_caches` takes several.
        MissingDependency: prometheus-client is not installed.
    """
    return export_caches({model: statistics}, registry=registry)


def export_caches(
    statistics: Mapping[str, Callable[[], CacheStatistics]], *, registry: CollectorRegistry | None = None
) -> Callable[[], None]:
    """`export_cache` for several engines, by the names of their models; the mapping is read at each scrape."""
    with needs("metrics", "prometheus-client"):
        from prometheus_client import REGISTRY
    chosen = registry if registry is not None else REGISTRY
    collector = _Collector(statistics)
    with registering("a cache"):
        chosen.register(collector)
    return lambda: chosen.unregister(collector)


class _Collector:
    def __init__(self, statistics: Mapping[str, Callable[[], CacheStatistics]]) -> None:
        self._statistics = statistics

    def collect(self) -> Iterable[Any]:
        """The metric families as they are now."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        now = {model: statistics() for model, statistics in self._statistics.items()}
        for make, texts in ((CounterMetricFamily, COUNTERS), (GaugeMetricFamily, GAUGES)):
            for name, text in texts.items():
                values = [((model,), getattr(each, name)) for model, each in now.items()]
                yield _family(make, name, text, ["model"], values)
        misses = [((model, reason), num) for model, each in now.items() for reason, num in each.misses.items()]
        text = "Requests that were not fully cached, by reason."
        yield _family(CounterMetricFamily, "misses", text, ["model", "reason"], misses)
        counted = {model: _uses(each.working_set) for model, each in now.items()}
        uses = [((model, distance), num) for model, each in counted.items() for distance, num in each.items()]
        text = "Uses of conversations by how many others were active since they were last; first: they were new."
        yield _family(CounterMetricFamily, "conversation_uses", text, ["model", "distance"], uses)
        held = [((model, kind), size) for model, each in now.items() for kind, size in _device_bytes(each).items()]
        text = "Bytes of the device's positions by what they hold: tokens, snapshots, live (running requests) or free."
        yield _family(GaugeMetricFamily, "device_bytes", text, ["model", "kind"], held)
        tiers = [((model, name), tier) for model, each in now.items() for name, tier in each.tiers.items()]
        for make, texts in ((GaugeMetricFamily, TIER_GAUGES), (CounterMetricFamily, TIER_COUNTERS)):
            for name, text in texts.items():
                values = [(labels, getattr(tier, name)) for labels, tier in tiers]
                yield _family(make, f"tier_{name}", text, ["model", "tier"], values)


def _uses(seen: WorkingSet) -> dict[str, int]:
    """By distance, rounded up so that there are few; `FIRST_USE` for new conversations."""
    counted = Counter({FIRST_USE: seen.first_uses})
    for distance, num in seen.distances.items():
        counted[str(rounded_distance(distance))] += num
    return dict(counted)


def _family(make: Any, name: str, text: str, labels: list[str], values: Iterable[tuple[tuple[str, ...], float]]) -> Any:
    family = make(PREFIX + name, text, labels=labels)
    for of, value in values:
        family.add_metric(list(of), value)
    return family


def _device_bytes(now: CacheStatistics) -> dict[str, int]:
    """The positions of the device by what they hold; together they are all that exist."""
    held = {
        "tokens": now.resident_tokens,
        "snapshots": now.resident_snapshots * now.snapshot_positions,
        "live": now.live_tokens,
    }
    held["free"] = max(0, now.capacity_tokens - sum(held.values()))
    return {kind: positions * now.position_bytes for kind, positions in held.items()}
