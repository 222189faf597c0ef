"""HTTP to one server or router: bodies out, JSON and events back, and asking again."""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, aclosing, suppress
from copy import copy
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import anyio
from anyio.lowlevel import RunVar

from agentform.errors import AgentformError, InvalidRequest, ReplyMalformed
from agentform.runtime.http.cancellable import cancellable
from agentform.runtime.http.connection import Connection
from agentform.runtime.http.event_stream import EventStream
from agentform.runtime.http.failures import Failure, RefusalOf, of_exception, of_status
from agentform.runtime.http.library import httpx

__all__ = ["OfEvent", "Transport", "of_error_event"]

T = TypeVar("T")

_JSON = {"content-type": "application/json"}

OfEvent = Callable[[Mapping[str, Any], str], Failure | None]
"""From an event and the server's address, the failure that the event reports, if it does."""


class Transport:
    """Sends bodies and gives back the JSON that they are answered with. Use from any number of event loops.

    Every event loop has connections of its own, closed by `aclose` or when the loop ends.

    Raises:
        EngineError: what `failures` makes of whatever failed.
    """

    def __init__(
        self, connection: Connection, *, refused: RefusalOf = InvalidRequest, of_event: OfEvent | None = None
    ) -> None:
        """`refused` makes an error of what the server says of a request that it does not take (400, 413, 422).

        `of_event` finds the failure that an event of a stream may report.
        """
        self.where = connection.shown
        self._refused = refused
        self._of_event = of_event or of_error_event
        self.after_outage: Callable[[], Awaitable[None]] | None = None
        """Awaited once the server is back after it was lost, before it is asked again."""
        self._connection = connection
        self._options = connection.options()
        self._retries = connection.retries
        self._lock = threading.Lock()
        self._kept_now: httpx.Client | None = None
        self._client_of_loop: RunVar[_Kept] = RunVar(f"agentform.http.{uuid.uuid4()}")

    def ask_now(self, method: str, path: str, body: Any = None) -> Any:
        """Ask, and wait without an event loop; `None` where the server knows no such path."""
        with httpx.Client(**self._options, transport=self._connection.transport) as client:
            return self._asked_now(client, method, path, body)

    def ask_again_now(self, method: str, path: str, body: Any = None) -> Any:
        """As `ask_now`, over a connection that is kept for the next time; from any thread."""
        with self._lock:
            if self._kept_now is None:
                self._kept_now = httpx.Client(**self._options, transport=self._connection.transport)
        return self._asked_now(self._kept_now, method, path, body)

    def _asked_now(self, client: httpx.Client, method: str, path: str, body: Any) -> Any:
        num_failed = 0
        while True:
            try:
                response = client.request(method, path, content=_encoded(body), headers=_JSON)
                return None if response.status_code == 404 else self._json_of(response)
            except (Failure, httpx.HTTPError) as error:
                num_failed += 1
                time.sleep(self._wait_s(self._failure(error), num_failed))

    async def ask(self, path: str, body: Any, *, headers: Mapping[str, str] | None = None) -> Any:
        """Post, again if need be, and wait for the whole reply."""
        return await self._patiently(lambda: self.ask_once("POST", path, body, headers=headers))

    async def ask_once(
        self, method: str, path: str, body: Any = None, *, headers: Mapping[str, str] | None = None
    ) -> Any:
        """One try.

        Raises:
            Failure: the server did not answer as it should.
        """
        client = await self._client()
        try:
            request = client.build_request(method, path, content=_encoded(body), headers={**_JSON, **(headers or {})})
            response = await client.send(cancellable(request))
        except httpx.HTTPError as error:
            raise self._failure(error) from error
        return self._json_of(response)

    async def probe(self, path: str) -> None:
        """One GET of which only the status counts."""

        async def once() -> None:
            try:
                response = await (await self._client()).get(path)
            except httpx.HTTPError as error:
                raise self._failure(error) from error
            if response.status_code != 200:
                raise self._of_status(response)

        await self.shown(once)

    async def shown(self, once: Callable[[], Awaitable[T]]) -> T:
        """One try of something, with the error in place of a Failure."""
        try:
            return await once()
        except Failure as failure:
            raise self._shown(failure.error) from failure

    async def events(
        self, path: str, body: Any, *, headers: Mapping[str, str] | None = None
    ) -> AsyncGenerator[dict[str, Any], None]:
        """The events of a streamed reply. It is asked for again until the first one is there, and never after."""
        first, stream = await self._patiently(lambda: self._open(path, body, {**_JSON, **(headers or {})}))
        try:
            async with aclosing(stream):
                yield first
                async for event in stream:
                    yield event
        except Failure as failure:
            raise self._shown(failure.error) from failure

    async def tell(self, path: str, body: Any, *, within_s: float) -> None:
        """Post what may get lost, even where the task is being cancelled; never raises."""
        with anyio.move_on_after(within_s, shield=True):
            with suppress(httpx.HTTPError, RuntimeError):  # RuntimeError: the client was closed meanwhile
                client = await self._client()
                request = client.build_request("POST", path, content=_encoded(body), headers=_JSON)
                await client.send(cancellable(request))

    async def aclose(self) -> None:
        """Close the connections of the running event loop, and the one that is kept outside of any."""
        with self._lock:
            kept_now, self._kept_now = self._kept_now, None
        if kept_now is not None:
            kept_now.close()
        kept = self._client_of_loop.get(None)
        if kept is not None:
            await kept.keeper.aclose()

    async def _client(self) -> httpx.AsyncClient:
        kept = self._client_of_loop.get(None)
        if kept is None:
            # Event loops close the async generators that they saw begin when they end.
            client = httpx.AsyncClient(**self._options, transport=self._connection.async_transport)
            kept = _Kept(client=client, keeper=_keep(client))
            self._client_of_loop.set(kept)
            await anext(kept.keeper)
        return kept.client

    async def _patiently(self, once: Callable[[], Awaitable[T]]) -> T:
        num_failed, lost = 0, False
        while True:
            try:
                if lost and self.after_outage is not None:
                    await self.after_outage()
                return await once()
            except Failure as failure:
                num_failed, lost = num_failed + 1, lost or failure.lost
                await anyio.sleep(self._wait_s(failure, num_failed))

    def _wait_s(self, failure: Failure, num_failed: int) -> float:
        """Seconds before the next try.

        Raises:
            AgentformError: there is none; it is what failed.
        """
        wait = self._retries.wait_s(num_failed, failure.after_s) if failure.again else None
        if wait is not None:
            return wait
        error = failure.error
        if num_failed > 1:
            error = _saying(error, f"{error}; tried {num_failed} times")
        raise self._shown(error) from failure

    async def _open(
        self, path: str, body: Any, headers: Mapping[str, str]
    ) -> tuple[dict[str, Any], AsyncGenerator[dict[str, Any], None]]:
        """Read up to the first event.

        Raises:
            Failure: the server did not answer as it should.
        """
        stream = self._stream(path, body, headers)
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(aclosing(stream))
            first = await anext(stream, None)
            if first is None:
                raise Failure(ReplyMalformed(f"{self.where} sent a stream without an event"))
            stack.pop_all()
        return first, stream

    async def _stream(self, path: str, body: Any, headers: Mapping[str, str]) -> AsyncGenerator[dict[str, Any], None]:
        client = await self._client()
        events = EventStream()
        try:
            request = client.build_request("POST", path, content=_encoded(body), headers=headers)
            response = await client.send(cancellable(request), stream=True)
            pieces = response.aiter_bytes()
            try:
                if response.status_code != 200:
                    await response.aread()
                    self._json_of(response)
                async for piece in pieces:
                    for data in events.feed(piece):
                        if data != b"[DONE]":
                            yield self._event(data)
            finally:
                await _close(response, pieces)
        except httpx.HTTPError as error:
            raise self._failure(error) from error

    def _event(self, data: bytes) -> dict[str, Any]:
        event = self._decoded(data)
        if not isinstance(event, dict):
            raise Failure(ReplyMalformed(f"{self.where} sent an event that is no object: {data[:80]!r}"))
        failure = self._of_event(cast("dict[str, Any]", event), self.where)
        if failure is not None:
            raise failure
        return cast("dict[str, Any]", event)

    def _json_of(self, response: httpx.Response) -> Any:
        if response.status_code != 200:
            raise self._of_status(response)
        return self._decoded(response.content)

    def _of_status(self, response: httpx.Response) -> Failure:
        return of_status(response.status_code, response.headers, response.content, self.where, refused=self._refused)

    def _decoded(self, data: bytes) -> Any:
        try:
            return json.loads(data)
        except ValueError as error:
            raise Failure(ReplyMalformed(f"{self.where} sent something that is no JSON: {data[:80]!r}")) from error

    def _failure(self, error: Failure | httpx.HTTPError) -> Failure:
        return error if isinstance(error, Failure) else of_exception(error, self.where)

    def _shown(self, error: AgentformError) -> AgentformError:
        """The error without the key, should a server or proxy have echoed it."""
        key = self._connection.api_key
        return _saying(error, str(error).replace(key, "…")) if key and key in str(error) else error


def of_error_event(event: Mapping[str, Any], where: str) -> Failure | None:
    """The failure of an event that holds an `error`, with its `code` where that is a status."""
    if not event.get("error"):
        return None
    found = event["error"] if isinstance(event["error"], Mapping) else {"message": event["error"]}
    code = found.get("code")
    body = json.dumps({"message": str(found.get("message") or "no reason given")}).encode()
    return of_status(code if isinstance(code, int) else 500, {}, body, where)


@dataclass(frozen=True, kw_only=True)
class _Kept:
    client: httpx.AsyncClient
    keeper: AsyncGenerator[None, None]


async def _keep(client: httpx.AsyncClient) -> AsyncGenerator[None, None]:
    try:
        yield
    finally:
        await client.aclose()


async def _close(response: httpx.Response, pieces: AsyncIterator[bytes]) -> None:
    """Close the connection of a body that may not be read to its end.

    Once it is closed, httpx's generators, one inside the other, are run into its end: those that are only dropped are
    left to the garbage collector, of which trio warns.
    """
    with anyio.CancelScope(shield=True):
        await response.aclose()
        with suppress(httpx.HTTPError, httpx.StreamError):
            async for _ in pieces:
                pass


def _saying(error: AgentformError, text: str) -> AgentformError:
    """The error with another message."""
    said = copy(error)
    said.args = (text,)
    return said


def _encoded(body: Any) -> bytes | None:
    return None if body is None else json.dumps(body, separators=(",", ":")).encode()
