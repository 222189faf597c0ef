"""Clients that say nothing, or too slowly, or do not listen: nobody else waits for them."""

from __future__ import annotations

import contextlib
import json
import socket
from concurrent.futures import ThreadPoolExecutor

import anyio
import anyio.lowlevel
import httpx
import pytest

from agentform.serve.receive import BodyMemory
from agentform.testing import Say, ScriptedEngine
from tests.serve.test_guards import BODY, CHAT, KEY, raw
from tests.support.servers import running
from tests.support.waiting import Background, wait_until

HEAD = b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"


@contextlib.contextmanager
def connections(server, num: int, said: bytes):
    """Many clients that have said this much."""
    with contextlib.ExitStack() as stack:
        made = [stack.enter_context(socket.create_connection(("127.0.0.1", server.port))) for _ in range(num)]
        for each in made:
            with contextlib.suppress(OSError):  # it has given way already
                each.sendall(said)
        yield made


@pytest.mark.parametrize(
    "said",
    [b"", b"GET /hea", HEAD, HEAD + b"content-length: 1000\r\n\r\n{", b"GET /health HTTP/1.1\r\nx: " + b"y" * 9000],
)
def test_any_number_of_silent_connections_leaves_room_for_others(said):
    with running(ScriptedEngine([Say("Hi.")]), max_running=1, max_queued=0) as server, connections(server, 400, said):
        assert httpx.get(server.url + "/health").status_code == 200
        assert httpx.post(server.url + CHAT, json=BODY).status_code == 200
        assert len(server.server.server_state.connections) <= 2 * 129


def test_a_request_that_is_being_answered_does_not_give_way():
    engine = ScriptedEngine([Say("Done.", delay_s=2)])
    with running(engine) as server, ThreadPoolExecutor(1) as pool:
        reply = pool.submit(lambda: httpx.post(server.url + CHAT, json=BODY, timeout=20))
        wait_until(lambda: server.service.admission.running == 1)
        with connections(server, 300, b""):
            assert reply.result().status_code == 200


@pytest.mark.parametrize("said", [b"", b"GET /health HTTP/1.1\r\n"])
def test_headers_that_do_not_come_end_the_connection(said):
    with running(ScriptedEngine([]), header_timeout_s=0.05) as server:
        assert raw(server, said) == b""


def test_bytes_that_trickle_in_do_not_put_the_deadline_off():
    refused = HEAD + b"content-length: 1000000\r\n\r\n"  # a body that nobody reads, as there is no key
    with running(ScriptedEngine([]), api_keys=(KEY,), header_timeout_s=0.2) as server:
        for said in (b"GET /health HTTP/1.1\r\nx: ", refused):
            with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
                connection.sendall(said)
                connection.settimeout(0.02)
                assert any(_is_closed(connection) for _ in range(1000))


def _is_closed(connection: socket.socket) -> bool:
    """Say a little more, and see whether anybody listens."""
    try:
        connection.sendall(b"y")
        return connection.recv(65536) == b""
    except TimeoutError:
        return False
    except OSError:
        return True


def test_a_client_that_does_not_listen_is_left():
    engine = ScriptedEngine([Say("word " * 100_000)])
    body = json.dumps(BODY | {"stream": True, "max_tokens": 1_000_000}).encode()
    with (
        running(engine, write_timeout_s=0.2) as server,
        socket.socket() as connection,
    ):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(("127.0.0.1", server.port))
        connection.sendall(HEAD + b"content-length: %d\r\n\r\n" % len(body) + body)
        wait_until(lambda: not server.service.admission.idle)
        server.settled()


def test_a_length_that_is_told_twice_is_refused():
    twice = HEAD + b"content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n"
    with running(ScriptedEngine([])) as server:
        reply = raw(server, twice)
    assert reply.startswith(b"HTTP/1.1 400")
    assert b"connection: close" in reply.lower()


@pytest.mark.anyio
async def test_bodies_that_arrive_share_a_memory_and_the_oldest_gives_way():
    memory = BodyMemory(100)
    old, new = memory.begin(), memory.begin()
    memory.add(old, b"x" * 60)
    memory.add(new, b"y" * 60)
    assert (old.gave_way, new.gave_way) == (True, False)
    with old.scope:
        await anyio.lowlevel.checkpoint()
    assert old.scope.cancelled_caught
    memory.end(new)
    alone = memory.begin()
    memory.add(alone, b"z" * 200)  # the limit of one body is another's business
    assert not alone.gave_way


def test_slow_bodies_end_when_others_need_the_memory():
    with running(ScriptedEngine([Say("Hi.")]), max_body_bytes=1000) as server:
        half = HEAD + b"content-length: 1000\r\n\r\n" + b" " * 900
        with connections(server, 40, half) as made:
            reply = Background(lambda: made[0].recv(65536))
            assert httpx.post(server.url + CHAT, json=BODY).status_code == 200
            reply.done()
