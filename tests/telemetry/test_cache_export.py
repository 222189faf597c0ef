from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest

from agentform.errors import InvalidInput
from agentform.runtime.cache.statistics import CacheStatistics, TierStatistics
from agentform.telemetry import PrometheusObserver, export_cache, export_caches


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


def test_what_the_device_holds_adds_up_to_all_positions():
    registry = CollectorRegistry()
    state = CacheStatistics(
        resident_tokens=10,
        resident_snapshots=2,
        snapshot_positions=3,
        live_tokens=4,
        capacity_tokens=100,
        position_bytes=8,
    )
    export_cache(lambda: state, model="tiny", registry=registry)
    held = {
        kind: registry.get_sample_value("agentform_cache_device_bytes", {"model": "tiny", "kind": kind})
        for kind in ("tokens", "snapshots", "live", "free")
    }
    assert held == {"tokens": 80, "snapshots": 48, "live": 32, "free": 640}


def test_several_models_are_one_export():
    registry = CollectorRegistry()
    export_caches(
        {"a": lambda: CacheStatistics(requests=1), "b": lambda: CacheStatistics(requests=2)}, registry=registry
    )
    found = {m: registry.get_sample_value("agentform_cache_requests_total", {"model": m}) for m in "ab"}
    assert found == {"a": 1, "b": 2}
    assert generate_latest(registry).decode().count("# TYPE agentform_cache_requests_total ") == 1


def test_a_second_export_is_refused():
    registry = CollectorRegistry(auto_describe=True)
    export_cache(CacheStatistics, model="a", registry=registry)
    with pytest.raises(InvalidInput, match="metrics of a cache already"):
        export_cache(CacheStatistics, model="b", registry=registry)
    PrometheusObserver(registry=registry)
    with pytest.raises(InvalidInput, match="metrics of agents already"):
        PrometheusObserver(registry=registry)
