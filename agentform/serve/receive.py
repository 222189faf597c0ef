"""The body of a request: read within its time and size, and all bodies on their way within a memory of their own."""

from __future__ import annotations

from dataclasses import dataclass, field

import anyio
from starlette.requests import Request

from agentform._util.threads import REQUESTS
from agentform.serve.compressed import opened
from agentform.serve.problems import Problem, Refused, bad_request
from agentform.serve.settings import ServerSettings

__all__ = ["BodyMemory", "read_body"]


@dataclass(eq=False)
class _Arriving:
    """A body on its way."""

    data: bytearray = field(default_factory=bytearray)
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    gave_way: bool = False


class BodyMemory:
    """What all bodies that are still arriving hold together; beyond it the one that began first gives way."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._arriving: dict[_Arriving, None] = {}

    def begin(self) -> _Arriving:
        """Take in a new body."""
        body = _Arriving()
        self._arriving[body] = None
        return body

    def add(self, body: _Arriving, data: bytes) -> None:
        """A piece of it has come."""
        body.data += data
        while sum(len(each.data) for each in self._arriving) > self._limit and len(self._arriving) > 1:
            oldest = next(iter(self._arriving))
            self.end(oldest)
            oldest.gave_way = True
            oldest.scope.cancel()

    def end(self, body: _Arriving) -> None:
        """It is whole, or will not be."""
        self._arriving.pop(body, None)


async def read_body(request: Request, settings: ServerSettings, memory: BodyMemory) -> bytes | None:
    """The body; `None` if the client went before it was whole.

    Raises:
        Refused: 415 for another content type or encoding, 413 when it is too large, 408 when it does not come in time.
    """
    _check_headers(request, settings)
    body = memory.begin()
    body.scope.deadline = anyio.current_time() + settings.body_timeout_s
    try:
        with body.scope:
            return await _received(request, settings, memory, body)
    finally:
        memory.end(body)
    late = f"the body did not arrive within {settings.body_timeout_s:g} s"
    message = "too many bodies arrive at once, and this one began first" if body.gave_way else late
    raise Refused(_closing(Problem(status=408, code="request_timeout", message=message)))


async def _received(request: Request, settings: ServerSettings, memory: BodyMemory, body: _Arriving) -> bytes | None:
    while True:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            return None
        memory.add(body, message.get("body", b""))
        if len(body.data) > settings.max_body_bytes:
            raise Refused(_too_large(settings))
        if not message.get("more_body"):
            encoding = request.headers.get("content-encoding")
            data = bytes(body.data)
            return data if encoding is None else await REQUESTS.run(opened, data, encoding, settings.max_body_bytes)


def _check_headers(request: Request, settings: ServerSettings) -> None:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        # A web page can make a browser send other types to a local server without asking it first.
        problem = Problem(status=415, code="unsupported_media_type", message="content-type must be application/json")
        raise Refused(_closing(problem))
    declared = request.headers.get("content-length", "0")
    if not (declared.isascii() and declared.isdecimal() and len(declared) <= _MOST_DIGITS):
        raise bad_request("content-length must be a number", param=None)
    if int(declared) > settings.max_body_bytes:
        raise Refused(_too_large(settings))


_MOST_DIGITS = 20


def _too_large(settings: ServerSettings) -> Problem:
    message = f"the body is larger than {settings.max_body_bytes:,} bytes"
    return _closing(Problem(status=413, code="request_too_large", message=message))


def _closing(problem: Problem) -> Problem:
    """The rest of the body is not read, so that the connection cannot be used again."""
    return Problem(status=problem.status, code=problem.code, message=problem.message, headers={"connection": "close"})
