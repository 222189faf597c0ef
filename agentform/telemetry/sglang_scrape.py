"""What SGLang's own /metrics tells of its prefix cache; it needs `--enable-metrics`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from agentform.runtime.cache.statistics import CacheStatistics

__all__ = ["read_sglang_metrics"]

_PREFIX = "sglang:"
_FIELDS = {
    "num_requests": "requests",
    "prompt_tokens": "lookup_tokens",
    "cached_tokens": "hit_tokens",
    "evicted_tokens": "evicted_tokens",
    "kv_evictable_tokens": "resident_tokens",
    "kv_used_tokens": "live_tokens",
    "max_total_num_tokens": "capacity_tokens",
}
"""SGLang's names, and fields of `CacheStatistics`."""


def read_sglang_metrics(samples: Iterable[Any]) -> CacheStatistics | None:
    """The statistics in Prometheus samples of a server of SGLang; `None` if they are of something else.

    Which conversations came back, and why a prompt was missed, SGLang does not count.
    """
    found = Counter[str]()
    for sample in samples:
        if not sample.name.startswith(_PREFIX):
            continue
        name, value = sample.name.removeprefix(_PREFIX).removesuffix("_total"), int(sample.value)
        if name in _FIELDS:
            found[_FIELDS[name]] += value
    if "lookup_tokens" not in found:
        return None
    counted: dict[str, Any] = dict(found)
    return CacheStatistics(**counted, matched_tokens=found["hit_tokens"])
