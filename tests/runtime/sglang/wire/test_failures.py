from __future__ import annotations

import ssl

import httpx
import pytest

from agentform.errors import (
    CacheBudgetExceeded,
    EngineError,
    EngineUnauthorized,
    EngineUnavailable,
    GrammarError,
    InvalidRequest,
    ReplyMalformed,
)
from agentform.runtime.http.failures import message_of, of_exception
from agentform.runtime.sglang.wire.failures import of_event, of_status

WHERE = "http://host:1"


@pytest.mark.parametrize(
    ("status", "headers", "kind", "again"),
    [
        (400, {}, InvalidRequest, False),
        (401, {}, EngineUnauthorized, False),
        (403, {}, EngineUnauthorized, False),
        (404, {}, EngineError, False),
        (413, {}, InvalidRequest, False),
        (422, {}, InvalidRequest, False),
        (429, {}, EngineUnavailable, True),
        (500, {}, EngineError, False),
        (500, {"x-smg-error-code": "call_upstream_connection_failed"}, EngineUnavailable, True),
        (502, {}, EngineUnavailable, True),
        (503, {}, EngineUnavailable, True),
        (504, {}, EngineUnavailable, True),
        (307, {}, EngineError, False),
    ],
)
def test_each_status_has_its_error(status, headers, kind, again):
    failure = of_status(status, headers, b'{"error": {"message": "because"}}', WHERE)
    assert type(failure.error) is kind
    assert failure.again is again
    assert 300 <= status < 400 or "because" in str(failure.error)


def test_retry_after_is_read():
    assert of_status(503, {"retry-after": "4"}, b"", WHERE).after_s == 4.0


def test_what_sglang_says_of_grammars_and_room_keeps_its_own_type():
    assert type(of_status(400, {}, b'{"error": {"message": "Failed to compile json grammar"}}', WHERE).error) is (
        GrammarError
    )
    assert (
        type(
            of_status(400, {}, b'{"error": {"message": "Input length 9 exceeds the maximum allowed length"}}', "").error
        )
        is CacheBudgetExceeded
    )


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'{"error": {"message": "a\\n b"}}', "a b"),
        (b'{"error": "a"}', "a"),
        (b'{"object": "error", "message": "a"}', "a"),
        (b'{"detail": "Not Found"}', "Not Found"),
        (b"plain text", "plain text"),
        (b"\xff\xfe", "\ufffd\ufffd"),
        (b"[1]", "[1]"),
        (b"", ""),
    ],
)
def test_the_reason_is_found_in_any_shape(body, said):
    assert message_of(body) == said


@pytest.mark.parametrize(
    ("error", "kind", "again", "lost"),
    [
        (httpx.ConnectError("refused"), EngineUnavailable, True, True),
        (httpx.ConnectTimeout("slow"), EngineUnavailable, True, True),
        (httpx.ReadError("reset"), EngineUnavailable, True, True),
        (httpx.WriteError("reset"), EngineUnavailable, True, True),
        (httpx.RemoteProtocolError("closed"), EngineUnavailable, True, True),
        (httpx.ReadTimeout("silent"), EngineUnavailable, False, False),
        (httpx.ProxyError("proxy"), EngineUnavailable, False, False),
        (httpx.DecodingError("gzip"), ReplyMalformed, False, False),
    ],
)
def test_each_exception_of_httpx_has_its_error(error, kind, again, lost):
    failure = of_exception(error, WHERE)
    assert (type(failure.error), failure.again, failure.lost) == (kind, again, lost)
    assert WHERE in str(failure.error)


def test_a_certificate_is_not_tried_again():
    error = httpx.ConnectError("[SSL] verify failed")
    error.__cause__ = ssl.SSLCertVerificationError("verify failed")
    failure = of_exception(error, WHERE)
    assert not failure.again
    assert "ca_file" in str(failure.error)


def aborted(message, status):
    return {"meta_info": {"finish_reason": {"type": "abort", "message": message, "status_code": status}}}


@pytest.mark.parametrize(
    ("event", "kind", "again"),
    [
        ({"error": {"message": "m", "code": 400}}, InvalidRequest, False),
        ({"error": "m"}, EngineError, False),
        (
            aborted("full", 503),
            EngineUnavailable,
            True,
        ),
        (aborted("m", None), EngineError, False),
    ],
)
def test_events_report_errors_too(event, kind, again):
    failure = of_event(event, WHERE)
    assert failure is not None
    assert (type(failure.error), failure.again) == (kind, again)


def test_an_event_that_reports_none():
    assert of_event({"meta_info": {"finish_reason": {"type": "stop"}}}, WHERE) is None
    assert of_event({"text": ""}, WHERE) is None
