"""However many pieces a request comes in, nobody else waits for it, and very many small ones are refused."""

from __future__ import annotations

import json
import socket

import h11
import httpx
import pytest

from agentform.serve.body_pieces import PiecewiseConnection
from agentform.testing import Say, ScriptedEngine
from tests.serve.test_connections import HEAD
from tests.serve.test_guards import BODY, CHAT, raw
from tests.support.servers import running

CHUNKED = HEAD + b"transfer-encoding: chunked\r\n\r\n"


def pieces(data: bytes, size: int) -> bytes:
    """As chunks of so many bytes."""
    parts = [data[at : at + size] for at in range(0, len(data), size)]
    return b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_a_body_in_pieces_is_read_whole(size):
    body = json.dumps(BODY | {"messages": [{"role": "user", "content": "x" * 5000}]}).encode()
    with running(ScriptedEngine([Say("Hi.")])) as server:
        with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
            connection.sendall(CHUNKED + pieces(body, size))
            assert connection.recv(65536).startswith(b"HTTP/1.1 200")


def pour(connection: socket.socket) -> None:
    for _ in range(1000):
        connection.sendall(b"1\r\n \r\n" * 1000)


def test_very_many_small_pieces_are_refused_and_large_ones_are_not():
    with running(ScriptedEngine([])) as server:
        for head in (CHUNKED, CHUNKED.replace(b"POST", b"PUT")):  # read, and answered before it is read
            with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
                connection.sendall(head)
                with pytest.raises((BrokenPipeError, ConnectionResetError)):
                    pour(connection)
        assert raw(server, CHUNKED + pieces(b" " * 3_000_000, 100)).startswith(b"HTTP/1.1 400")
        assert httpx.get(server.url + "/health").status_code == 200


def test_others_have_their_turn_between_pieces():
    connection = PiecewiseConnection(1 << 16)
    connection.receive_data(CHUNKED + pieces(b" " * 100, 1))
    turns, read = 0, b""
    while True:
        connection.begin_turn()
        turns += 1
        while (event := connection.next_event()) is not h11.NEED_DATA and event is not h11.PAUSED:
            read += bytes(event.data) if isinstance(event, h11.Data) else b""
        if not connection.has_more:
            break
    assert (turns, read) == (7, b" " * 100)


@pytest.mark.parametrize("said", [b"\x00\r\n\r\n", b"GET /health HTTP/1.1\r\nhost\r\n\r\n", b"x" * 5000 + b"\r\n\r\n"])
def test_what_is_no_http_is_told_so_in_the_shape_of_other_errors(said):
    with running(ScriptedEngine([])) as server:
        head, _, body = raw(server, said).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400")
    assert json.loads(body)["error"]["code"] == "invalid_http"


def test_a_web_socket_is_answered_as_the_request_that_it_is():
    asked = b"connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: AAAA\r\n\r\n"
    with running(ScriptedEngine([])) as server:
        assert raw(server, b"GET /health HTTP/1.1\r\nhost: localhost\r\n" + asked).startswith(b"HTTP/1.1 200")
        assert raw(server, f"GET {CHAT} HTTP/1.1\r\nhost: localhost\r\n".encode() + asked).startswith(b"HTTP/1.1 405")
