from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest

from agentform.errors import InvalidInput
from agentform.runtime.cache.statistics import CacheStatistics, TierStatistics
from agentform.runtime.cache.working_set import WorkingSet, rounded_distance
from agentform.telemetry import PrometheusObserver, export_cache, export_caches
from agentform.telemetry.cache_scrape import read_cache_metrics


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


def test_who_came_back_after_how_many_others_is_exported_and_read_back():
    registry = CollectorRegistry()
    seen = WorkingSet(distances={0: 2, 9: 90, 1000: 5, 1001: 4}, first_uses=12)
    statistics = CacheStatistics(
        requests=113, lookup_tokens=1130, working_set=seen, position_bytes=64, snapshot_bytes=9
    )
    export_caches({"a": lambda: statistics, "b": lambda: statistics}, registry=registry)
    read = read_cache_metrics(generate_latest(registry).decode())
    assert read.working_set == WorkingSet(distances={0: 4, 9: 180, 1024: 18}, first_uses=24)
    assert (read.position_bytes, read.snapshot_bytes, read.requests) == (64, 9, 226)


@pytest.mark.parametrize("distance", [*range(40), 500, 4097, 70_000])
def test_distances_are_rounded_up_by_a_sixteenth_at_most(distance):
    assert distance <= rounded_distance(distance) <= distance * 17 / 16


def test_a_server_of_sglang_is_read_too():
    text = """\
# TYPE sglang:prompt_tokens counter
sglang:prompt_tokens_total{model_name="m"} 1200.0
# TYPE sglang:cached_tokens counter
sglang:cached_tokens_total{model_name="m",cache_source="device"} 500.0
sglang:cached_tokens_total{model_name="m",cache_source="host"} 100.0
# TYPE sglang:num_requests counter
sglang:num_requests_total{model_name="m"} 7.0
# TYPE sglang:evicted_tokens counter
sglang:evicted_tokens_total{model_name="m"} 33.0
# TYPE sglang:max_total_num_tokens gauge
sglang:max_total_num_tokens{model_name="m"} 20000.0
"""
    read = read_cache_metrics(text)
    assert (read.requests, read.lookup_tokens, read.hit_tokens) == (7, 1200, 600)
    assert (read.evicted_tokens, read.capacity_tokens, read.working_set) == (33, 20_000, WorkingSet())
