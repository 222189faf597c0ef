"""What a server tells of its requests: metrics, log lines and spans, and nothing that they said."""

from __future__ import annotations

import json
import logging

import httpx
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from starlette.testclient import TestClient

from agentform.serve.app import Service
from agentform.serve.settings import ServerSettings
from agentform.testing import Say, ScriptedEngine

SECRET = "hunter2-0042"
CHAT = {"model": "scripted", "messages": [{"role": "user", "content": f"Say {SECRET}."}]}


def service(**options) -> Service:
    settings = ServerSettings(**options.pop("settings", {}))
    return Service(engine=ScriptedEngine([Say("one two three")] * 2), settings=settings, **options)


def client(of: Service) -> TestClient:
    return TestClient(of.app, base_url="http://127.0.0.1")


def chat(path: str = "/v1/chat/completions", of: Service | None = None, **headers) -> httpx.Response:
    answer = client(of or service()).post(path, json={**CHAT, "stream": True}, headers=headers)
    assert answer.status_code == 200
    return answer


def test_first_token_gaps_and_queue_are_measured_and_the_build_is_told():
    served = service()
    chat(of=served)
    text = client(served).get("/metrics").text
    for name in ("queue_seconds", "time_to_first_token_seconds"):
        assert f'agentform_http_{name}_count{{path="/v1/chat/completions"}} 1.0' in text
    assert 'agentform_http_inter_token_seconds_count{path="/v1/chat/completions"}' in text
    assert "agentform_build_info{" in text


@pytest.mark.parametrize(
    ("accept", "kind", "ends"),
    [("", "text/plain", False), ("application/openmetrics-text; version=1.0.0", "application/openmetrics-text", True)],
)
def test_metrics_come_in_the_format_that_is_asked_for(accept, kind, ends):
    answer = client(service()).get("/metrics", headers={"accept": accept})
    assert answer.headers["content-type"].startswith(kind)
    assert answer.text.endswith("# EOF\n") == ends


def test_a_request_is_one_line_with_its_own_path_and_tokens(caplog):
    with caplog.at_level(logging.INFO, "agentform.serve"):
        chat("/chat/completions/?key=" + SECRET)
        client(service()).get("/no%0Ahere")
    first, second = [record.getMessage() for record in caplog.records if record.name == "agentform.serve"]
    assert " POST /chat/completions/ 200 " in first
    assert "completion=14" in first
    assert " GET /no%0Ahere 404 " in second
    assert SECRET not in caplog.text


def test_log_lines_may_be_json(caplog):
    with caplog.at_level(logging.INFO, "agentform.serve"):
        chat(of=service(settings={"access_log": "json"}))
        chat(of=service(settings={"access_log": "off"}))
    [line] = [record.getMessage() for record in caplog.records if record.name == "agentform.serve"]
    told = json.loads(line)
    assert (told["path"], told["status"]) == ("/v1/chat/completions", 200)
    assert told["completion_tokens"] > 0
    assert told["first_token_seconds"] >= told["queue_seconds"] >= 0


def test_a_trace_goes_on_through_the_server_to_the_engine():
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    served = service(settings={"trace": True}, tracer_provider=provider)
    chat(of=served, traceparent="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
    spans = {span.name: span for span in exporter.get_finished_spans()}
    request = spans["POST /v1/chat/completions"]
    assert request.context.trace_id == 0x0AF7651916CD43DD8448EB211C80319C
    assert request.parent.span_id == 0xB7AD6B7169203331
    assert request.attributes["http.response.status_code"] == 200
    assert spans["text_completion scripted"].parent.span_id == request.context.span_id
    assert SECRET not in "".join(span.to_json() for span in exporter.get_finished_spans())
