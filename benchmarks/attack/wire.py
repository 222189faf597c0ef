"""What a client may try below HTTP's surface: framing, slowness, and what it does not read."""

from __future__ import annotations

import contextlib
import gzip
import json
import socket
import zlib
from collections.abc import Iterator

from benchmarks.attack.asking import CHAT, HEAD, answered, chat, left_early, ok, said_to
from benchmarks.attack.target import KEYS, Target

__all__ = [
    "bad_framing",
    "clients_that_leave",
    "compressed_bombs",
    "endless_bodies",
    "forged_headers",
    "header_floods",
    "odd_paths",
    "old_http",
    "pipelines",
    "slow_readers",
    "upgrades",
]


def bad_framing(target: Target) -> None:
    """Requests whose length is told in two ways, or in none that can be."""
    for rest in (
        b"content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        b"content-length: 5\r\ncontent-length: 6\r\n\r\nhello",
        b"content-length: -1\r\n\r\n",
        b"content-length: 1e3\r\n\r\n",
        b"content-length: 9223372036854775808\r\n\r\n{}",
        b"content-length: " + b"9" * 5000 + b"\r\n\r\n{}",
        b"content-length: 99999999999\r\n\r\n{}",
        b"transfer-encoding: chunked\r\n\r\nffffffffffffffffff\r\n",
        b"transfer-encoding: chunked\r\n\r\n-5\r\nhello\r\n0\r\n\r\n",
        b"transfer-encoding: chunked\r\n\r\n5;" + b"x" * 100_000 + b"\r\nhello\r\n0\r\n\r\n",
        b"transfer-encoding: chunked\r\ntransfer-encoding: identity\r\n\r\n0\r\n\r\n",
        b"transfer-encoding: gzip\r\n\r\n",
        b"x: " + b"y" * 200_000 + b"\r\n\r\n",
        b"x\x00y: z\r\ncontent-length: 0\r\n\r\n",
        b"x : z\r\ncontent-length: 0\r\n\r\n",
        b"x: a\r\n b\r\ncontent-length: 0\r\n\r\n",
    ):
        _refused(said_to(target, HEAD + rest), rest[:60])


def _refused(reply: bytes, what: object) -> None:
    """Whoever sent this is told that it is their fault, or nothing."""
    status = reply.partition(b"\r\n")[0]
    assert status == b"" or status.startswith(b"HTTP/1.1 4"), (what, reply[:200])


def header_floods(target: Target) -> None:
    """Ten thousand headers, and a megabyte of one, by many at once."""
    floods = (
        b"".join(b"x-%d: y\r\n" % at for at in range(10_000)),
        b"x: " + b"y" * (1 << 20) + b"\r\n",
        b"x" * (1 << 20) + b": y\r\n",
        b"cookie: a=b\r\n" * 5_000,
    )
    for flood in floods:
        for _ in range(target.many(16)):
            _refused(said_to(target, HEAD + flood + b"content-length: 0\r\n\r\n"), flood[:20])
    _refused(said_to(target, b"GET /" + b"a" * (1 << 20) + b" HTTP/1.1\r\nhost: localhost\r\n\r\n"), "path")
    _refused(said_to(target, b"G" * (1 << 20)), "method")
    ok(target)


def endless_bodies(target: Target) -> None:
    """Bodies in chunks that never end, some fast and some a byte at a time."""
    endless = HEAD + b"transfer-encoding: chunked\r\n\r\n"
    with contextlib.ExitStack() as stack:
        for _ in range(target.many(80)):
            slow = stack.enter_context(socket.create_connection(("127.0.0.1", target.port)))
            with left_early():
                slow.sendall(endless + b"1\r\n \r\n")
                slow.sendall(b"1\r\n \r\n")
        assert target.is_healthy()
        ok(target)
        _refused(_poured(target, endless, b"1\r\n \r\n" * 4096), "single bytes in chunks")
        _refused(_poured(target, endless, b"10000\r\n" + b" " * 65_536 + b"\r\n"), "large chunks")
        _refused(_poured(target, HEAD + b"content-length: 99999999999\r\n\r\n", b" " * 65_536), "no chunks")


def _poured(target: Target, head: bytes, piece: bytes) -> bytes:
    """What is said to a client that sends for as long as somebody listens."""
    with socket.create_connection(("127.0.0.1", target.port), timeout=60) as connection:
        connection.sendall(head)
        with left_early():
            for _ in range(4000):
                connection.sendall(piece)
        with left_early():
            return connection.recv(65_536)
    return b""


def pipelines(target: Target) -> None:
    """Thousands of requests on one connection before the first answer is read."""
    ask = b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n"
    with socket.create_connection(("127.0.0.1", target.port), timeout=60) as connection:
        connection.settimeout(2)
        with contextlib.suppress(TimeoutError, OSError):  # the server reads no further while nobody reads it
            for _ in range(target.many(400)):
                connection.sendall(ask * 100)
        assert target.is_healthy()
        ok(target)
    body = json.dumps(chat(target)).encode()
    several = (HEAD + b"content-length: %d\r\n\r\n" % len(body) + body) * 3
    with socket.create_connection(("127.0.0.1", target.port), timeout=60) as connection:
        connection.sendall(several)
        read = b""
        while read.count(b"HTTP/1.1 200") < 3:
            piece = connection.recv(65_536)
            assert piece, read[:400]
            read += piece


def slow_readers(target: Target) -> None:
    """Clients that ask for streams and read nothing of them, and some that close one half."""
    body = json.dumps(chat(target, stream=True, max_tokens=64)).encode()
    ask = HEAD + b"content-length: %d\r\n\r\n" % len(body) + body
    with contextlib.ExitStack() as stack:
        for at in range(target.many(40)):
            deaf = stack.enter_context(socket.socket())
            deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
            deaf.connect(("127.0.0.1", target.port))
            with left_early():
                deaf.sendall(ask)
                if at % 2:
                    deaf.shutdown(socket.SHUT_WR)
        assert target.is_healthy()
    _ok_soon(target)


def clients_that_leave(target: Target) -> None:
    """Clients that go in the middle of a stream, or of their own body."""
    body = json.dumps(
        chat(target, stream=True, max_tokens=100_000, messages=[{"role": "user", "content": "a"}])
    ).encode()
    ask = HEAD + b"content-length: %d\r\n\r\n" % len(body) + body
    for at in range(target.many(64)):
        with socket.create_connection(("127.0.0.1", target.port), timeout=60) as connection:
            connection.sendall(ask if at % 2 else ask[: len(ask) // 2])
            if at % 4 == 1:
                connection.recv(1)
            if at % 3:  # a reset, not an end
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
    _ok_soon(target)
    assert _is_idle(target)


def _ok_soon(target: Target) -> None:
    """Places are free again, at the latest when the requests that hold them have been left."""
    for _ in range(600):
        reply = answered(target.post(CHAT, chat(target)))
        if reply.status_code == 200:
            return
        assert reply.status_code == 429, reply.text
        target.pause()
    raise AssertionError("no place has become free")


def _is_idle(target: Target) -> bool:
    for _ in range(600):
        text = target.get("/metrics").text
        if "agentform_http_running 0.0" in text and "agentform_http_queued 0.0" in text:
            return True
        target.pause()
    return False


def old_http(target: Target) -> None:
    """HTTP/1.0, HTTP/0.9, HTTP/2 without being asked, TLS, and what is no HTTP at all."""
    reply = said_to(target, b"GET /health HTTP/1.0\r\n\r\n")
    assert reply.startswith((b"HTTP/1.1 200", b"HTTP/1.0 200")), reply
    body = json.dumps(chat(target)).encode()
    old = HEAD.replace(b"HTTP/1.1", b"HTTP/1.0") + b"content-length: %d\r\n\r\n" % len(body) + body
    assert b" 200 " in said_to(target, old, ends=False).partition(b"\r\n")[0]
    for said in (
        b"GET /health\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\x00" * 60,
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 500,
        b"\x00" * 4096,
        bytes(range(256)) * 16,
        b"\r\n" * 50_000,
        b"SSH-2.0-x\r\n",
    ):
        _refused(said_to(target, said), said[:20])


def compressed_bombs(target: Target) -> None:
    """Bodies of kilobytes that are gigabytes once they are opened."""
    zeros = b"0" * (1 << 20)
    packer = zlib.compressobj(9, wbits=31)
    bomb = b"".join(packer.compress(zeros) for _ in range(64)) + packer.flush()
    bombs = {
        "gzip": [bomb, gzip.compress(bomb)],
        "deflate": [bomb],
        "br": [b"\x00" * 1000],
        "zstd": list(_zstd_bombs()),
    }
    for encoding, bodies in bombs.items():
        for body in [*bodies, b"", b"{}"]:
            reply = target.post(CHAT, content=body, headers={"content-encoding": encoding})
            assert reply.status_code in (400, 413, 415), (encoding, reply.status_code, reply.text[:200])
    for encoding in ("gzip, gzip", "zstd, zstd", "x" * 5000, "identity;q=0", "\u00e9"):
        reply = target.post(CHAT, content=b"{}", headers={"content-encoding": encoding.encode("latin-1")})
        assert reply.status_code in (400, 413, 415), (encoding, reply.status_code, reply.text[:200])


def _zstd_bombs() -> Iterator[bytes]:
    """A frame of megabytes of zeros, a window of gigabytes, and many empty frames."""
    magic = b"\x28\xb5\x2f\xfd"
    block = (131_072 << 3 | 1 << 1).to_bytes(3, "little") + b"0"  # 128 KiB of one byte, from four
    yield magic + b"\x00\x58" + block * 20_000 + (1).to_bytes(3, "little")
    yield magic + b"\x00\xff" + block * 10
    yield (magic + b"\x00\x58" + (1).to_bytes(3, "little")) * 50_000
    yield b"\x50\x2a\x4d\x18\xff\xff\xff\xff" + b"x" * 1000


def odd_paths(target: Target) -> None:
    """Paths and names that want to be written to logs, metrics or files as they are."""
    for at in range(target.many(400)):
        target.get(f"/v1/{at}/nothing")
    for path in (
        b"/%00",
        b"/v1/responses/%00%0a",
        b"/v1/responses/..%2f..%2fetc%2fpasswd",
        b"/v1/models/../../etc/passwd",
        b"/v1/models/%ff%fe",
        b"/v1/models/" + b"%0d%0aset-cookie:%20a=b",
        b"//health",
        b"/health%0aINFO%20forged",
        b"/" + b"%c3%a9" * 1000,
        b"/v1/chat/completions%00",
        b"/\xc3\xa9",
        b"http://169.254.169.254/latest/meta-data",
        b"*",
        b"/v1/responses/resp_" + b"0" * 32 + b"/input_items?x=" + b"y" * 5000,
    ):
        key = f"authorization: Bearer {KEYS[0]}\r\n".encode()
        for method in (b"GET", b"POST", b"DELETE", b"HEAD", b"TRACE", b"CONNECT", b"FOO"):
            reply = said_to(target, method + b" " + path + b" HTTP/1.1\r\nhost: localhost\r\n" + key + b"\r\n")
            assert b" 5" not in reply.partition(b"\r\n")[0], (method, path, reply[:200])
            assert b"set-cookie" not in reply.partition(b"\r\n\r\n")[0].lower()
    text = target.get("/metrics").text
    assert "nothing" not in text
    assert text.count("agentform_http_requests_total{") < 200
    assert b"\nINFO forged" not in target.log.read_bytes()


def forged_headers(target: Target) -> None:
    """Headers by which a client says that it is another, or how it wants to be written down."""
    forged = {
        "x-forwarded-for": "10.0.0.1",
        "x-forwarded-proto": "https",
        "x-forwarded-host": "evil.example",
        "forwarded": "for=10.0.0.1;host=evil.example",
        "x-real-ip": "10.0.0.1",
        "x-request-id": "the-id-of-another\t\x7f",
        "x-original-url": "/metrics",
        "x-http-method-override": "DELETE",
        "x-conversation-id": "a\x1b[2Jb",
    }
    reply = target.post(CHAT, chat(target), headers=forged)
    assert answered(reply).status_code in (200, 400), reply.text
    assert "the-id-of-another" not in str(reply.headers)
    assert "evil.example" not in reply.text
    assert target.get("/metrics", key="nobody-has-this-key", headers=forged).status_code == 401
    ids = {target.get("/v1/models", headers={"x-request-id": "same"}).headers["x-request-id"] for _ in range(3)}
    assert len(ids) == 3


def upgrades(target: Target) -> None:
    """Web sockets and other protocols that are asked for, and what a web page of elsewhere may do."""
    web_socket = (
        b"connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n"
        b"sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
    for path in (b"/health", b"/v1/chat/completions", b"/nothing"):
        for rest in (web_socket, b"connection: upgrade, http2-settings\r\nupgrade: h2c\r\nhttp2-settings: AA\r\n\r\n"):
            reply = said_to(target, b"GET " + path + b" HTTP/1.1\r\nhost: localhost\r\n" + rest)
            assert b" 101 " not in reply.partition(b"\r\n")[0], reply[:200]
            assert b" 5" not in reply.partition(b"\r\n")[0], reply[:200]
    origin = b"origin: https://evil.example\r\naccess-control-request-method: POST\r\n"
    for path in (b"/v1/chat/completions", b"/health", b"*"):
        reply = said_to(target, b"OPTIONS " + path + b" HTTP/1.1\r\nhost: localhost\r\n" + origin + b"\r\n")
        assert b"access-control-allow" not in reply.lower(), reply
        assert b" 5" not in reply.partition(b"\r\n")[0], reply[:200]
    asked = b"GET /health HTTP/1.1\r\nhost: localhost\r\n" + web_socket
    with contextlib.ExitStack() as stack:
        for _ in range(target.many(200)):
            made = stack.enter_context(socket.create_connection(("127.0.0.1", target.port)))
            with left_early():
                made.sendall(asked)
        assert target.is_healthy()
    ok(target)
