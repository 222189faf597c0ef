"""A missing optional package is one typed error that names the extra; importing agentform.telemetry needs none."""

from __future__ import annotations

import builtins
import subprocess
import sys

import pytest

from agentform import telemetry
from agentform.errors import MissingDependency
from agentform.runtime.cache.statistics import CacheStatistics
from agentform.testing import ScriptedEngine

USES = {
    "export_cache": ("metrics", lambda: telemetry.export_cache(CacheStatistics, model="tiny")),
    "PrometheusObserver": ("metrics", telemetry.PrometheusObserver),
    "read_cache_metrics": ("metrics", lambda: telemetry.read_cache_metrics("")),
    "OpenTelemetryObserver": ("otel", telemetry.OpenTelemetryObserver),
    "traced": ("otel", lambda: telemetry.traced(ScriptedEngine([]))),
}


@pytest.mark.parametrize("name", USES)
def test_the_error_names_the_extra(name, monkeypatch):
    real = builtins.__import__

    def without(module, *args):
        if module.startswith(("prometheus_client", "opentelemetry")):
            raise ImportError(module)
        return real(module, *args)

    monkeypatch.setattr(builtins, "__import__", without)
    extra, use = USES[name]
    with pytest.raises(MissingDependency, match=rf"\[{extra}\]"):
        use()


def test_importing_the_package_imports_no_extra():
    code = "import sys, agentform.telemetry; print({'prometheus_client', 'opentelemetry'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
