"""What attacks have in common: requests as they should be, and what is seen of the answers."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator, Mapping
from typing import Any

import httpx

from benchmarks.attack.target import KEYS, Target

__all__ = [
    "CHAT",
    "DECISIONS",
    "HEAD",
    "answered",
    "chat",
    "connections",
    "left_early",
    "ok",
    "said_to",
    "tool",
    "user",
]

CHAT, DECISIONS = "/v1/chat/completions", "/v1/decisions"
HEAD = (
    b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    + f"authorization: Bearer {KEYS[0]}\r\n".encode()
)
"""The headers of a request of the first client, but for the length of its body."""


def user(text: Any) -> list[dict[str, Any]]:
    """A conversation of one message."""
    return [{"role": "user", "content": text}]


def chat(target: Target, **fields: Any) -> dict[str, Any]:
    """A chat request for one token."""
    return {"model": target.model(), "messages": user("Hi."), "max_tokens": 1, **fields}


def tool(parameters: Mapping[str, Any], name: str = "f") -> dict[str, Any]:
    """A tool as chat requests describe it."""
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


def answered(reply: httpx.Response, *, deadline: bool = False) -> httpx.Response:
    """Fail for what is the server's fault; its deadline is a fault only where nothing had a reason to be slow."""
    assert reply.status_code < 500 or (deadline and reply.status_code == 504), (reply.status_code, reply.text[:200])
    return reply


def ok(target: Target) -> None:
    """The server still serves."""
    assert answered(target.post(CHAT, chat(target))).status_code == 200


@contextlib.contextmanager
def connections(target: Target, num: int, said: bytes) -> Iterator[None]:
    """Many at once that have all said this."""
    with contextlib.ExitStack() as stack:
        for _ in range(num):
            made = stack.enter_context(socket.create_connection(("127.0.0.1", target.port)))
            made.settimeout(5)
            with contextlib.suppress(OSError):
                made.sendall(said)
        yield


def said_to(target: Target, data: bytes, *, ends: bool = True, patience_s: float = 60) -> bytes:
    """The beginning of what is answered to these bytes; `ends`: nothing more will come."""
    with socket.create_connection(("127.0.0.1", target.port), timeout=patience_s) as connection:
        with left_early():
            connection.sendall(data)
            if ends:
                connection.shutdown(socket.SHUT_WR)
        with left_early():
            return connection.recv(65_536)
    return b""


@contextlib.contextmanager
def left_early() -> Iterator[None]:
    """The server may answer and close before it has all; that it does neither is still an error.

    A closed connection shows as a broken pipe, a reset, or as none at all (`ENOTCONN`, from `shutdown`).
    """
    try:
        yield
    except TimeoutError:
        raise
    except OSError:
        pass
