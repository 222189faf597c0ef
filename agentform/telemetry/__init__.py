"""What agents and engines do, for those who watch them: Prometheus, OpenTelemetry, and hit rate over time.

Importing this package needs no extra; using `export_cache` and `PrometheusObserver` needs "metrics",
`OpenTelemetryObserver` and `traced` need "otel". What users, models and tools said is not recorded unless asked for.
"""

from agentform.agent.observer import Done, Observer, Operation, Report, RunObserved, ToolObserved, TurnObserved
from agentform.telemetry.agent_export import PrometheusObserver
from agentform.telemetry.cache_export import export_cache, export_caches
from agentform.telemetry.cache_scrape import read_cache_metrics
from agentform.telemetry.genai import OpenTelemetryObserver
from agentform.telemetry.history import HitRateHistory, HitRateSample, Share
from agentform.telemetry.page import hit_rate_page
from agentform.telemetry.traced_engine import traced

__all__ = [
    "Done",
    "HitRateHistory",
    "HitRateSample",
    "Observer",
    "OpenTelemetryObserver",
    "Operation",
    "PrometheusObserver",
    "Report",
    "RunObserved",
    "Share",
    "ToolObserved",
    "TurnObserved",
    "export_cache",
    "export_caches",
    "hit_rate_page",
    "read_cache_metrics",
    "traced",
]
