"""What the server does with those who should not be served, who are too many, too slow or gone."""

from __future__ import annotations

import json
import logging
import socket

import httpx
import pytest

from agentform.errors import AgentformError, EngineClosed, EngineUnavailable, InvalidInput
from agentform.serve.guards import _is_loopback
from agentform.serve.settings import ServerSettings, read_api_keys
from agentform.testing import Call, Fail, Say, ScriptedEngine
from tests.support.engines import HeldEngine
from tests.support.servers import running
from tests.support.waiting import PATIENCE_S, Background, wait_until

KEY = "a-key-of-a-certain-length"
USER = [{"role": "user", "content": "Hi, my secret is 12345."}]
BODY = {"model": "scripted", "messages": USER}
CHAT = "/v1/chat/completions"


def post(server, body=BODY, **options):
    return httpx.post(server.url + CHAT, **{"json": body, "timeout": PATIENCE_S, **options})


def raw(server, data: bytes) -> bytes:
    """What comes back for these bytes, up to the end of the connection."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_S) as connection:
        connection.sendall(data)
        parts = []
        while part := connection.recv(65536):
            parts.append(part)
    return b"".join(parts)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "example.org", ""])
def test_only_a_loopback_address_needs_no_key(host):
    with pytest.raises(InvalidInput, match="an API key is needed"):
        ServerSettings(host=host)
    ServerSettings(host=host, api_keys=(KEY,))


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "[::1]", "127.8.8.8"])
def test_loopback_addresses_are_known(host):
    assert ServerSettings(host=host).is_local


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"api_keys": ("short",)}, "at least 16 characters"),
        ({"port": 70_000}, "port"),
        ({"max_running": 0}, "max_running"),
        ({"max_queued": -1}, "max_queued"),
    ],
)
def test_settings_that_make_no_sense_are_refused(options, said):
    with pytest.raises(InvalidInput, match=said):
        ServerSettings(**options)


def test_keys_come_from_a_file_and_the_environment(tmp_path):
    file = tmp_path / "keys"
    file.write_text(f"{KEY}\n\n  another-key-that-is-long \n")
    assert read_api_keys(file, {"AGENTFORM_API_KEY": "from-the-environment"}) == (
        "from-the-environment",
        KEY,
        "another-key-that-is-long",
    )
    assert read_api_keys(None, {"AGENTFORM_API_KEY": " "}) == ()


@pytest.mark.parametrize(
    "content", [None, b"", b"\n \n", b"\xff\xfe", b"two words in a key", "schlüssel-schlüssel".encode()]
)
def test_a_key_file_without_usable_keys_is_refused(content, tmp_path):
    file = tmp_path / "keys"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(InvalidInput):
        read_api_keys(file, {})


@pytest.mark.parametrize(
    "header", [None, "", "Bearer", f"Basic {KEY}", f"Bearer {KEY}x", f"Bearer {KEY[:-1]}", "Bearer \xff"]
)
def test_who_shows_no_key_is_not_let_in(header):
    with running(ScriptedEngine([]), api_keys=(KEY, "other-key-that-is-long")) as server:
        headers = {} if header is None else {b"authorization": header.encode("latin-1")}
        for path in (CHAT, "/v1/models", "/metrics", "/nothing"):
            reply = httpx.get(server.url + path, headers=headers)
            assert (reply.status_code, reply.json()["error"]["code"]) == (401, "invalid_api_key")
            assert reply.headers["www-authenticate"] == "Bearer"
        assert httpx.get(server.url + "/health").status_code == 200


def test_any_key_lets_in():
    with running(ScriptedEngine([]), api_keys=(KEY, "other-key-that-is-long")) as server:
        for key in (KEY, "other-key-that-is-long"):
            assert httpx.get(server.url + "/v1/models", headers={"authorization": f"bearer {key}"}).status_code == 200


def test_without_a_key_other_names_for_this_machine_are_refused():
    with running(ScriptedEngine([])) as server:
        reply = httpx.get(server.url + "/v1/models", headers={"host": "evil.example"})
        assert (reply.status_code, reply.json()["error"]["code"]) == (403, "host_not_allowed")


@pytest.mark.parametrize(
    ("host", "local"),
    [
        ("localhost:1", True),
        ("[::1]:8000", True),
        ("127.0.0.1", True),
        ("", False),
        ("[", False),
        ("127.0.0.1.x", False),
    ],
)
def test_hosts_are_read_with_and_without_a_port(host, local):
    assert _is_loopback(host) is local


def test_a_request_that_is_too_large_is_refused_whether_it_says_so_or_not():
    with running(ScriptedEngine([]), max_body_bytes=1000) as server:
        big = json.dumps(BODY | {"user": "x" * 2000}).encode()
        said = post(server, content=big, json=None, headers={"content-type": "application/json"})
        chunked = post(server, content=iter([big]), json=None, headers={"content-type": "application/json"})
        assert [(r.status_code, r.json()["error"]["code"]) for r in (said, chunked)] == [(413, "request_too_large")] * 2


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", None])
def test_what_a_web_page_can_send_unasked_is_refused(kind):
    with running(ScriptedEngine([])) as server:
        headers = {} if kind is None else {"content-type": kind}
        reply = post(server, content=json.dumps(BODY).encode(), json=None, headers=headers)
        assert (reply.status_code, reply.json()["error"]["code"]) == (415, "unsupported_media_type")


def test_a_client_that_is_slow_with_its_body_is_told_and_left():
    head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    with running(ScriptedEngine([]), body_timeout_s=0.05) as server:
        reply = raw(server, head + b"content-length: 100\r\n\r\n{")
        assert reply.startswith(b"HTTP/1.1 408")
        assert b"request_timeout" in reply
        assert b"HTTP/1.1 400" in raw(server, head + b"content-length: -5\r\nconnection: close\r\n\r\n")
        assert raw(server, b"\x16\x03\x01 no http\r\n\r\n").startswith(b"HTTP/1.1 400")


def test_other_methods_and_paths_are_errors_of_the_same_shape():
    with running(ScriptedEngine([])) as server:
        wrong = httpx.get(server.url + CHAT)
        missing = httpx.post(server.url + "/v1/embeddings", json={})
    assert (wrong.status_code, wrong.json()["error"]["code"]) == (405, "method_not_allowed")
    assert (missing.status_code, missing.json()["error"]["code"]) == (404, "not_found")


def test_who_comes_when_too_many_wait_is_told_when_to_come_again():
    engine = ScriptedEngine([Say("Late.", delay_s=60), Say("Late.", delay_s=60)])
    replies = []
    with running(engine, max_running=1, max_queued=1) as server:
        first = Background(lambda: replies.append(post(server)))
        wait_until(lambda: server.service.admission.running == 1)
        second = Background(lambda: replies.append(post(server)))
        wait_until(lambda: server.service.admission.queued == 1)
        metrics = httpx.get(server.url + "/metrics").text
        third = post(server)
    first.done()
    second.done()
    assert "agentform_http_running 1.0" in metrics
    assert "agentform_http_queued 1.0" in metrics
    assert (third.status_code, third.json()["error"]["type"]) == (429, "rate_limit_error")
    assert int(third.headers["retry-after"]) >= 1
    assert [reply.status_code for reply in replies] == [503, 503]  # the server was stopped


@pytest.mark.parametrize("stream", [False, True])
def test_a_request_that_takes_too_long_is_ended(stream):
    engine = ScriptedEngine([Say("Late.", delay_s=60)])
    with running(engine, deadline_s=0.1) as server:
        reply = post(server, BODY | {"stream": stream})
        server.settled()
    assert (reply.status_code, reply.json()["error"]["code"]) == (504, "deadline_exceeded")
    assert reply.headers["x-should-retry"] == "false"


def test_the_time_in_the_queue_counts():
    engine = ScriptedEngine([Say("Late.", delay_s=60), Say("Late.", delay_s=60)])
    with running(engine, deadline_s=0.3, max_running=1) as server:
        first = Background(lambda: post(server))
        wait_until(lambda: server.service.admission.running == 1)
        second = post(server)
        first.done()
    assert second.status_code == 504


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_goes_away_ends_its_request(stream):
    engine = ScriptedEngine([Say("Late.", delay_s=60), Say("Hi.")])
    with running(engine, max_running=1) as server:
        with pytest.raises(httpx.ReadTimeout):
            post(server, BODY | {"stream": stream}, timeout=httpx.Timeout(PATIENCE_S, read=0.3))
        server.settled()
        assert post(server).status_code == 200
        assert 'path="/v1/chat/completions",status="499"' in httpx.get(server.url + "/metrics").text


def test_a_client_that_goes_away_in_the_queue_leaves_it():
    with running(HeldEngine([Say("One.")]), max_running=1) as server:
        first = Background(lambda: post(server))
        wait_until(lambda: server.service.admission.running == 1)
        with pytest.raises(httpx.ReadTimeout):
            post(server, timeout=httpx.Timeout(PATIENCE_S, read=0.2))
        wait_until(lambda: server.service.admission.queued == 0)
    first.done()


def test_a_client_that_leaves_a_stream_in_the_middle_ends_it():
    engine = ScriptedEngine([_Endless()])
    with running(engine) as server:
        with httpx.stream("POST", server.url + CHAT, json=BODY | {"stream": True, "max_tokens": 1_000_000}) as reply:
            assert next(reply.iter_lines()).startswith("data: ")
        server.settled()


class _Endless(Say):
    """More text than anybody reads."""

    def __init__(self) -> None:
        super().__init__("word " * 150_000)


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (EngineClosed("closed"), 503, "engine_closed"),
        (EngineUnavailable("down"), 503, "engine_unavailable"),
        (AgentformError("odd"), 500, "server_error"),
        (OSError("my secret is 12345"), 500, "server_error"),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_faults_of_the_engine_have_a_status_and_no_secret_in_the_answer_or_log(error, status, code, stream, caplog):
    with caplog.at_level(logging.DEBUG), running(ScriptedEngine([Fail(error)])) as server:
        reply = post(server, BODY | {"stream": stream})
        health = httpx.get(server.url + "/health")
    assert (reply.status_code, reply.json()["error"]["code"]) == (status, code)
    assert "12345" not in reply.text
    assert "12345" not in caplog.text
    assert health.status_code == (503 if isinstance(error, EngineClosed) else 200)  # what is down may come back
    assert f"/v1/chat/completions {status}" in caplog.text


def test_a_fault_in_the_middle_of_a_stream_is_an_event():
    engine = ScriptedEngine([Call("note", {}, text="I note it.")])  # the script lacks the argument
    tool = {
        "name": "note",
        "parameters": {"type": "object", "properties": {"t": {"type": "string"}}, "required": ["t"]},
    }
    with running(engine) as server:
        reply = post(server, BODY | {"stream": True, "tools": [{"type": "function", "function": tool}]})
    events = [line.removeprefix("data: ") for line in reply.text.split("\n\n") if line]
    assert reply.status_code == 200
    assert json.loads(events[-1])["error"]["code"] == "server_error"
    assert "[DONE]" not in reply.text


def test_stopping_lets_running_requests_end_and_new_ones_not_begin():
    engine = HeldEngine([Say("Done.")])
    with running(engine, grace_s=PATIENCE_S) as server:
        replies = []
        first = Background(lambda: replies.append(post(server)))
        wait_until(lambda: server.service.admission.running == 1)
        server.server.stop()
        refused, health = post(server), httpx.get(server.url + "/health")
        engine.go_on.set()
        first.done()
        server.thread.done()
    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "shutting_down")
    assert (health.status_code, health.json()["status"]) == (503, "draining")
    assert replies[0].json()["choices"][0]["message"]["content"] == "Done."


def test_after_the_grace_time_running_requests_are_ended_and_told():
    engine = ScriptedEngine([Say("Late.", delay_s=60)])
    with running(engine, grace_s=0.1) as server:
        replies = []
        first = Background(lambda: replies.append(post(server)))
        wait_until(lambda: server.service.admission.running == 1)
        server.server.stop()
        first.done()
        server.thread.done()
    assert (replies[0].status_code, replies[0].json()["error"]["code"]) == (503, "shutting_down")
