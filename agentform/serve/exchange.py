"""One request from its body to its answer: read within limits, cancelled when the client goes, always answered."""

from __future__ import annotations

import json
import logging
import traceback
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any

import anyio
from starlette.requests import Request
from starlette.types import Message, Receive, Scope, Send

from agentform._util.threads import REQUESTS
from agentform.errors import AgentformError
from agentform.serve.admission import Admission
from agentform.serve.freed_memory import FreedMemory
from agentform.serve.problems import Problem, Refused, problem_of
from agentform.serve.receive import BodyMemory, read_body
from agentform.serve.request_record import record_of
from agentform.serve.settings import ServerSettings

__all__ = ["Exchange", "Handler", "exchange_app", "logged_problem_of", "send_json", "send_problem"]

_LOG = logging.getLogger("agentform.serve")
_FAREWELL_S = 2.0
"""Seconds in which a client must take the news that its request was ended."""

Answering = Callable[["Exchange"], Awaitable[None]]
Handler = Callable[[bytes, "Exchange"], Answering]
"""Reads a body, raising Refused or an AgentformError, into the work that answers it."""


async def send_json(send: Send, status: int, body: Any, headers: dict[str, str] | None = None) -> None:
    """A whole response."""
    await _send_whole(send, status, _json(body), headers)


def _json(body: Any) -> bytes:
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode(errors="replace")


async def _send_whole(send: Send, status: int, data: bytes, headers: dict[str, str] | None) -> None:
    lines = {"content-type": "application/json", "content-length": str(len(data)), **(headers or {})}
    await send(_start(status, lines))
    await send({"type": "http.response.body", "body": data})


async def send_problem(send: Send, problem: Problem, path: str) -> None:
    """An error as a whole response, in the shape of the API whose path it is."""
    await send_json(send, problem.status, problem.body(path), dict(problem.headers))


def _start(status: int, headers: dict[str, str]) -> Message:
    encoded = [(name.encode(), value.encode()) for name, value in headers.items()]
    return {"type": "http.response.start", "status": status, "headers": encoded}


class Exchange:
    """The sending side of one request; answers once, whole or as a stream of server-sent events."""

    def __init__(self, request: Request, send: Send) -> None:
        self.request = request
        self.headers: dict[str, str] = {}
        """Further headers of the answer, whatever becomes of it."""
        self.error_event: Callable[[Problem], tuple[str, dict[str, Any]]] | None = None
        """The name and body of the event that tells of an error in a stream, where it is not OpenAI's of chats."""
        self._send = send
        self._streaming = False
        self._done = False

    async def answer(self, body: Any, *, is_large: bool = False) -> None:
        """Send the whole answer; a large one is written in a thread."""
        self._done = True
        data = await REQUESTS.run(_json, body) if is_large else _json(body)
        await _send_whole(self._send, 200, data, self.headers)

    async def typed(self, events: Iterable[dict[str, Any]]) -> None:
        """Send events that go by the name of their type."""
        for event in events:
            await self.event(event, name=event["type"])

    async def event(self, data: Any, *, name: str | None = None) -> None:
        """Send one server-sent event; the first one begins the response."""
        if not self._streaming:
            self._streaming = True
            headers = {"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-store"} | self.headers
            await self._send(_start(200, headers))
        text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False, separators=(",", ":"))
        head = "" if name is None else f"event: {name}\n"
        body = f"{head}data: {text}\n\n".encode(errors="replace")
        await self._send({"type": "http.response.body", "body": body, "more_body": True})

    async def end(self, *, done: bool = True) -> None:
        """End the stream; `done`: with the word that says so."""
        if done:
            await self.event("[DONE]")
        self._done = True
        await self._send({"type": "http.response.body", "body": b""})

    async def fail(self, problem: Problem) -> None:
        """Say why there is no answer, or no rest of it; within bounds, as the client may not listen."""
        if self._done:
            return
        with anyio.move_on_after(_FAREWELL_S, shield=True):
            if not self._streaming:
                told = replace(problem, headers={**self.headers, **problem.headers})
                await send_problem(self._send, told, self.request.url.path)
                return
            name, body = (None, problem.body()) if self.error_event is None else self.error_event(problem)
            await self.event(body, name=name)
            await self._send({"type": "http.response.body", "body": b""})


def exchange_app(
    handler: Handler,
    *,
    admission: Admission,
    settings: ServerSettings,
    memory: BodyMemory,
    freed: FreedMemory,
    failed: Callable[[Exception], None],
) -> Callable[[Scope, Receive, Send], Awaitable[None]]:
    """An ASGI endpoint that reads a JSON body and does the work the handler makes of it."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        exchange, size = Exchange(Request(scope, receive), send), 0
        try:
            body = await read_body(exchange.request, settings, memory)
            if body is None:
                return
            size = len(body)
            await _until_gone(receive, partial(_work, handler, body, exchange, admission, failed))
        except Refused as refused:
            await exchange.fail(refused.problem)
        finally:
            body = None
            await freed.after(size)

    return app


async def _work(
    handler: Handler, body: bytes, exchange: Exchange, admission: Admission, failed: Callable[[Exception], None]
) -> None:
    try:
        async with admission.admit():
            if (record := record_of(exchange.request.scope)) is not None:
                record.admitted()
            # Off the event loop: schemas of tools are compiled here. A client that goes does not wait for it.
            work = await REQUESTS.run(handler, body, exchange)
            await work(exchange)
    except Refused as refused:
        await exchange.fail(refused.problem)
    except Exception as error:
        failed(error)
        await exchange.fail(logged_problem_of(error))


def logged_problem_of(error: Exception) -> Problem:
    """What a client is told of an error; one that is not agentform's own is in the log.

    The log says where it happened; not its message, which may hold what a client sent.
    """
    if not isinstance(error, AgentformError):
        frames = "".join(traceback.format_tb(error.__traceback__))
        _LOG.error("a request failed with %s\n%s", type(error).__name__, frames)
    return problem_of(error)


async def _until_gone(receive: Receive, work: Callable[[], Awaitable[None]]) -> None:
    """Do the work; it is cancelled when the client disconnects."""
    async with anyio.create_task_group() as group:

        async def watch() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass
            group.cancel_scope.cancel()

        group.start_soon(watch)
        await work()
        group.cancel_scope.cancel()
