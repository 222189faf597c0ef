"""Every metric and label that the Grafana dashboard asks for is exported."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from agentform import Agent
from agentform.runtime.cache.statistics import CacheStatistics, TierStatistics
from agentform.telemetry import PrometheusObserver, export_cache
from agentform.testing import Call, Say, ScriptedEngine

DASHBOARD = json.loads((Path(__file__).parents[2] / "docs" / "grafana" / "agentform.json").read_text())
QUERIES = [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]
QUERIES += [each["query"]["query"] for each in DASHBOARD["templating"]["list"] if each["type"] == "query"]


@pytest.fixture(scope="module")
def exported() -> dict[str, set[str]]:
    """Label names by sample name, of everything that agentform exports."""
    registry = CollectorRegistry()
    state = CacheStatistics(misses={"cold": 1}, tiers={"disk": TierStatistics()})
    export_cache(lambda: state, model="tiny", registry=registry)
    engine = ScriptedEngine([Call("weather", {"city": "Rome"}), Say("Sunny.")])
    Agent(engine, tools=[weather], observers=[PrometheusObserver(registry=registry)]).run_sync("How is it?")
    return {sample.name: set(sample.labels) for family in registry.collect() for sample in family.samples}


def weather(city: str) -> str:
    """How the weather is."""
    return city


@pytest.mark.parametrize("query", QUERIES)
def test_every_metric_and_label_of_a_query_is_exported(query, exported):
    metrics = re.findall(r"\bagentform_\w+", query)
    assert metrics
    labels = set(re.findall(r"(\w+)\s*!?=~?\s*\"", query))
    labels |= {name.strip() for names in re.findall(r"by \(([^)]*)\)", query) for name in names.split(",")}
    labels |= set(re.findall(r"label_values\(\w+, (\w+)\)", query))
    for metric in metrics:
        assert metric in exported
    assert labels <= set().union(*(exported[metric] for metric in metrics))


@pytest.mark.parametrize("panel", DASHBOARD["panels"], ids=lambda panel: panel["title"])
def test_a_legend_names_labels_that_its_query_keeps(panel):
    for target in panel["targets"]:
        kept = {name.strip() for names in re.findall(r"by \(([^)]*)\)", target["expr"]) for name in names.split(",")}
        assert set(re.findall(r"{{(\w+)}}", target["legendFormat"])) <= kept


def test_panels_have_ids_of_their_own_and_do_not_overlap():
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
    cells = [
        (x, y)
        for place in (panel["gridPos"] for panel in DASHBOARD["panels"])
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(cells) == len(set(cells))
