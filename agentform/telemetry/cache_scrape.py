"""A cache's counters read back from what `export_cache` exports, such as a server's /metrics."""

from __future__ import annotations

from collections import Counter
from typing import Any

from agentform.errors import InvalidInput
from agentform.runtime.cache.statistics import CacheStatistics, TierStatistics
from agentform.telemetry.cache_export import COUNTERS, GAUGES, PREFIX, TIER_COUNTERS, TIER_GAUGES
from agentform.telemetry.extras import needs

__all__ = ["read_cache_metrics"]


def read_cache_metrics(text: str) -> CacheStatistics:
    """The statistics in a Prometheus exposition; several models are added up. Conversations are not exported.

    Raises:
        InvalidInput: the text is no exposition, or holds no counters of a cache of agentform.
        MissingDependency: prometheus-client is not installed.
    """
    with needs("metrics", "prometheus-client"):
        from prometheus_client.parser import text_string_to_metric_families
    try:
        samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    except ValueError as error:
        raise InvalidInput(f"this is no Prometheus exposition: {error}") from error
    found, misses, tiers = Counter[str](), Counter[str](), dict[str, Counter[str]]()
    for sample in samples:
        name, value = sample.name.removeprefix(PREFIX).removesuffix("_total"), int(sample.value)
        if not sample.name.startswith(PREFIX):
            continue
        if name == "misses":
            misses[sample.labels.get("reason", "")] += value
        elif name in COUNTERS or name in GAUGES:
            found[name] += value
        elif (field := name.removeprefix("tier_")) in TIER_GAUGES or field in TIER_COUNTERS:
            tiers.setdefault(sample.labels.get("tier", ""), Counter())[field] += value
    if "lookup_tokens" not in found:
        raise InvalidInput(
            f"there is no {PREFIX}lookup_tokens_total among {len(samples)} samples: no cache is exported"
        )
    counted: dict[str, Any] = dict(found)
    held = {name: TierStatistics(**fields) for name, fields in tiers.items()}
    return CacheStatistics(**counted, misses=dict(misses), tiers=held)
