"""A running cache from its /metrics: once, live, and as a page."""

from __future__ import annotations

import io
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from rich.console import Console

from agentform import Agent
from agentform.cli.cache_stats import fetch_statistics, plot, statistics_view, stats
from agentform.errors import InvalidInput
from agentform.runtime.cache.statistics import CacheStatistics, TierStatistics
from agentform.serve.admission import Admission
from agentform.serve.metrics import ServerMetrics
from agentform.telemetry import HitRateHistory, export_cache, read_cache_metrics
from agentform.testing import Say, ScriptedEngine


class Server:
    """Serves /metrics of a cache that gets one request more at each look."""

    def __init__(self) -> None:
        self.looks = 0
        self.keys: list[str | None] = []
        registry = CollectorRegistry()
        export_cache(self.statistics, model="tiny", registry=registry)
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.keys.append(self.headers.get("Authorization"))
                known = self.path == "/metrics"
                outer.looks += known
                self.send_response(200 if known else 404)
                self.end_headers()
                self.wfile.write(generate_latest(registry) if known else b"no")

            def log_message(self, *args: object) -> None: ...

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._http.server_port}"
        threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True).start()

    def statistics(self) -> CacheStatistics:
        n = self.looks
        return CacheStatistics(requests=n, lookup_tokens=100 * n, hit_tokens=50 * n, misses={"cold": 1}, budget_bytes=7)

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()


@pytest.fixture
def server():
    made = Server()
    yield made
    made.close()


def test_what_is_exported_is_read_back():
    state = CacheStatistics(
        requests=3,
        lookup_tokens=30,
        hit_tokens=10,
        misses={"cold": 1, "no snapshot": 2},
        resident_snapshots=4,
        tiers={"device": TierStatistics(tokens=5, used_bytes=70), "disk": TierStatistics(hits=1, fetched_tokens=9)},
    )
    registry = CollectorRegistry()
    export_cache(lambda: state, model="tiny", registry=registry)
    assert read_cache_metrics(generate_latest(registry).decode()) == state


def test_several_models_are_added_up():
    registry = CollectorRegistry()
    registries = [CollectorRegistry(), CollectorRegistry()]
    for name, registry in zip("ab", registries, strict=True):
        export_cache(lambda: CacheStatistics(lookup_tokens=5, misses={"cold": 1}), model=name, registry=registry)
    found = read_cache_metrics("".join(generate_latest(registry).decode() for registry in registries))
    assert (found.lookup_tokens, found.misses) == (10, {"cold": 2})


def test_what_the_server_exports_is_read():
    engine = ScriptedEngine([Say("Hello.")])
    Agent(engine).run_sync("Hi")
    text = ServerMetrics(engine, Admission(max_running=1, max_queued=1, deadline_s=1)).text().decode()
    assert read_cache_metrics(text) == replace(engine.statistics(), conversations={})


@pytest.mark.parametrize("text", ["", "up 1\n", "agentform_cache_lookup_tokens_total{\n"])
def test_what_exports_no_cache_is_refused(text):
    with pytest.raises(InvalidInput):
        read_cache_metrics(text)


def test_a_server_is_asked_for_its_metrics_with_its_key(server, monkeypatch):
    monkeypatch.setenv("AGENTFORM_API_KEY", "k-1")
    assert fetch_statistics(server.url).lookup_tokens == 100
    monkeypatch.delenv("AGENTFORM_API_KEY")
    assert fetch_statistics(server.url + "/metrics").lookup_tokens == 200
    assert server.keys == ["Bearer k-1", None]
    with pytest.raises(InvalidInput, match="404"):
        fetch_statistics(server.url + "/elsewhere")


def test_no_server_is_one_error():
    with pytest.raises(InvalidInput, match=r"cannot read http://127\.0\.0\.1:9/metrics"):
        fetch_statistics("http://127.0.0.1:9")


def test_stats_of_a_server_are_shown(server):
    console = Console(file=io.StringIO(), width=120)
    stats(server.url, console, watch=False, every_s=1)
    assert server.looks == 1
    assert "50.0%" in console.file.getvalue()
    assert "cold: 1" in console.file.getvalue()
    assert "conversation" not in console.file.getvalue()


def test_watching_shows_each_look_until_interrupted(server, monkeypatch):
    naps = []

    def nap(seconds):
        naps.append(seconds)
        if len(naps) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr("agentform.cli.cache_stats.time", SimpleNamespace(sleep=nap))
    console = Console(file=io.StringIO(), width=120, force_terminal=True)
    stats(server.url, console, watch=True, every_s=0.5)
    assert naps == [0.5] * 3
    assert server.looks == 3
    assert "missed: cold" in console.file.getvalue()
    assert "▅▅▅" in console.file.getvalue()


def test_watching_goes_on_when_a_server_is_away(server, monkeypatch):
    def nap(seconds):
        if not getattr(nap, "closed", False):
            nap.closed = True
            server.close()
            return
        raise KeyboardInterrupt

    monkeypatch.setattr("agentform.cli.cache_stats.time", SimpleNamespace(sleep=nap))
    console = Console(file=io.StringIO(), width=120, force_terminal=True)
    stats(server.url, console, watch=True, every_s=0.5)
    assert "trying again" in console.file.getvalue()


def test_watching_a_folder_shows_what_it_holds(tmp_path, monkeypatch):
    def nap(seconds):
        raise KeyboardInterrupt

    monkeypatch.setattr("agentform.cli.cache_stats.time", SimpleNamespace(sleep=nap))
    console = Console(file=io.StringIO(), width=120, force_terminal=True)
    stats(str(tmp_path), console, watch=True, every_s=0.5)
    assert "entries" in console.file.getvalue()


def test_a_view_of_an_idle_cache_shows_no_rate():
    history = HitRateHistory()
    history.add(CacheStatistics())
    console = Console(file=io.StringIO(), width=120)
    console.print(statistics_view(CacheStatistics(), history, title="x"))
    assert "no request" in console.file.getvalue()


def test_a_server_is_plotted(server, tmp_path, monkeypatch):
    clock = iter(range(100))  # of the module alone: the server's threads look at theirs as often as they like
    own_time = SimpleNamespace(sleep=lambda seconds: None, monotonic=lambda: float(next(clock)))
    monkeypatch.setattr("agentform.cli.cache_stats.time", own_time)
    assert plot(server.url, tmp_path / "page.html", seconds=5, every_s=1) == 5
    assert "50.0%" in (tmp_path / "page.html").read_text()


def test_a_history_is_plotted(tmp_path):
    history = HitRateHistory()
    history.add(CacheStatistics(requests=1, lookup_tokens=4, hit_tokens=1))
    history.save(tmp_path / "h.jsonl")
    assert plot(str(tmp_path / "h.jsonl"), tmp_path / "page.html", seconds=1, every_s=1) == 1
    assert "25.0%" in (tmp_path / "page.html").read_text()
    with pytest.raises(InvalidInput, match="cannot write"):
        plot(str(tmp_path / "h.jsonl"), tmp_path / "no" / "page.html", seconds=1, every_s=1)
