from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest

from agentform.runtime.cache.statistics import CacheStatistics, TierStatistics
from agentform.telemetry import export_cache


def test_counters_are_read_at_each_scrape():
    registry = CollectorRegistry()
    tiers = {"device": TierStatistics(used_bytes=9), "host": TierStatistics(snapshots=2, hits=4)}
    state = CacheStatistics(requests=1, hit_tokens=5, misses={"no snapshot": 2}, resident_snapshots=3, tiers=tiers)
    forget = export_cache(lambda: state, model="tiny", registry=registry)
    text = generate_latest(registry).decode()
    assert 'agentform_cache_hit_tokens_total{model="tiny"} 5.0' in text
    assert 'agentform_cache_misses_total{model="tiny",reason="no snapshot"} 2.0' in text
    assert 'agentform_cache_resident_snapshots{model="tiny"} 3.0' in text
    assert 'agentform_cache_tier_used_bytes{model="tiny",tier="device"} 9.0' in text
    assert 'agentform_cache_tier_snapshots{model="tiny",tier="host"} 2.0' in text
    assert 'agentform_cache_tier_hits_total{model="tiny",tier="host"} 4.0' in text
    state = CacheStatistics(requests=2, hit_tokens=9)
    assert 'agentform_cache_hit_tokens_total{model="tiny"} 9.0' in generate_latest(registry).decode()
    forget()
    assert b"agentform" not in generate_latest(registry)


def test_the_package_is_optional(monkeypatch):
    import builtins

    from agentform.errors import MissingDependency

    real = builtins.__import__

    def without(name, *args):
        if name.startswith("prometheus_client"):
            raise ImportError(name)
        return real(name, *args)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingDependency, match="agentform\\[metrics\\]"):
        export_cache(CacheStatistics, model="tiny")
