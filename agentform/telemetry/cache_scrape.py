"""A cache's counters read back from what `export_cache` exports, such as a server's /metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from agentform.errors import InvalidInput
from agentform.runtime.cache.statistics import CacheStatistics, TierStatistics
from agentform.runtime.cache.working_set import WorkingSet
from agentform.telemetry.cache_export import COUNTERS, FIRST_USE, GAUGES, PREFIX, SIZES, TIER_COUNTERS, TIER_GAUGES
from agentform.telemetry.extras import needs
from agentform.telemetry.sglang_scrape import read_sglang_metrics

__all__ = ["read_cache_metrics"]


def read_cache_metrics(text: str) -> CacheStatistics:
    """The statistics in a Prometheus exposition, of agentform or of SGLang; several models are added up.

    Single conversations are not exported.

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
    found, misses, uses, tiers = Counter[str](), Counter[str](), Counter[str](), dict[str, Counter[str]]()
    for sample in samples:
        name, value = sample.name.removeprefix(PREFIX).removesuffix("_total"), int(sample.value)
        if not sample.name.startswith(PREFIX):
            continue
        if name == "conversation_uses":
            uses[sample.labels.get("distance", FIRST_USE)] += value
        elif name == "misses":
            misses[sample.labels.get("reason", "")] += value
        elif name in SIZES:
            found[name] = max(found[name], value)
        elif name in COUNTERS or name in GAUGES:
            found[name] += value
        elif (field := name.removeprefix("tier_")) in TIER_GAUGES or field in TIER_COUNTERS:
            tiers.setdefault(sample.labels.get("tier", ""), Counter())[field] += value
    if "lookup_tokens" not in found:
        if (of_sglang := read_sglang_metrics(samples)) is not None:
            return of_sglang
        raise InvalidInput(
            f"there is no {PREFIX}lookup_tokens_total among {len(samples)} samples: no cache is exported"
        )
    counted: dict[str, Any] = dict(found)
    held = {name: TierStatistics(**fields) for name, fields in tiers.items()}
    return CacheStatistics(**counted, misses=dict(misses), tiers=held, working_set=_working_set(uses))


def _working_set(uses: Mapping[str, int]) -> WorkingSet:
    """What was counted, with distances as far as they were exported.

    Raises:
        InvalidInput: a distance is no number.
    """
    try:
        distances = {int(distance): num for distance, num in uses.items() if distance != FIRST_USE}
    except ValueError as error:
        raise InvalidInput(f"a distance of {PREFIX}conversation_uses is no number: {error}") from error
    return WorkingSet(distances=distances, first_uses=uses.get(FIRST_USE, 0))
