"""What stands before every endpoint: who may come in, and what is written down of each request."""

from __future__ import annotations

import hmac
import ipaddress
import logging
from collections.abc import Sequence
from hashlib import sha256

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agentform.serve.clients import CLIENT, client_of
from agentform.serve.exchange import send_problem
from agentform.serve.metrics import ServerMetrics
from agentform.serve.problems import Problem
from agentform.serve.request_record import AccessLog, RequestRecord

__all__ = ["FramingGuard", "KeyGuard", "LocalGuard", "PathGuard", "Recorder"]

_LOG = logging.getLogger("agentform.serve")
ASKED_PATH = "agentform.asked_path"
"""Where a request's own path is kept that is served under another."""
_REQUEST_ID = ("x-request-id", "x-typesafe-request-id", "request-id")
"""Where the clients of OpenAI's API, of System One and of Anthropic's look for it."""


class KeyGuard:
    """Lets in who shows one of the keys; some paths are open to all."""

    def __init__(self, app: ASGIApp, *, keys: Sequence[str], open_paths: Sequence[str] = ("/health",)) -> None:
        self._app = app
        self._open = frozenset(open_paths)
        # Digests have one length, so that the comparison says nothing of a key's.
        self._clients = {sha256(key.encode()).digest(): client_of(key) for key in keys}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the request or answer it with 401."""
        client = self._client(Headers(scope=scope)) if scope["type"] == "http" else None
        if client is not None:
            scope.setdefault("state", {})[CLIENT] = client
        if scope["type"] != "http" or scope["path"] in self._open or client is not None:
            await self._app(scope, receive, send)
            return
        message = "a valid API key is needed: Authorization: Bearer KEY"
        headers = {"www-authenticate": "Bearer"}
        problem = Problem(status=401, code="invalid_api_key", message=message, headers=headers)
        await send_problem(send, problem, scope["path"])

    def _client(self, headers: Headers) -> str | None:
        """The name of the client whose key is shown."""
        scheme, _, key = headers.get("authorization", "").partition(" ")
        if "authorization" not in headers:  # as Anthropic's clients show it
            scheme, key = "bearer", headers.get("x-api-key", "")
        shown = sha256(key.strip().encode(errors="replace")).digest()
        # All are compared, whichever fits, so that the time says nothing.
        fits = [name for digest, name in self._clients.items() if hmac.compare_digest(shown, digest)]
        return fits[0] if fits and scheme.lower() == "bearer" else None


class FramingGuard:
    """Refuses a request whose length is told in two ways: a proxy may read the other one."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the request or answer it with 400."""
        headers = Headers(scope=scope) if scope["type"] == "http" else {}
        if not ("content-length" in headers and "transfer-encoding" in headers):
            await self._app(scope, receive, send)
            return
        message = "content-length and transfer-encoding contradict each other; send one of them"
        problem = Problem(status=400, code="invalid_framing", message=message, headers={"connection": "close"})
        await send_problem(send, problem, scope["path"])


class LocalGuard:
    """For servers without a key: refuses requests that a web page has redirected here under a name of its own."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the request or answer it with 403."""
        if scope["type"] != "http" or _is_loopback(Headers(scope=scope).get("host", "")):
            await self._app(scope, receive, send)
            return
        message = "without an API key this server answers to localhost only; the Host header names another"
        await send_problem(send, Problem(status=403, code="host_not_allowed", message=message), scope["path"])


def _is_loopback(host: str) -> bool:
    name = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
    if name.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


class PathGuard:
    """Takes paths as people write them: with a slash at their end, or without `/v1` before them."""

    def __init__(self, app: ASGIApp, *, paths: Sequence[str]) -> None:
        self._app = app
        self._paths = frozenset(paths)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the request under the path that is meant."""
        path = scope.get("path", "")
        meant = path.rstrip("/") or "/"
        if meant not in self._paths and f"/v1{meant}" in self._paths:
            meant = f"/v1{meant}"
        known = {**scope, "path": meant, "raw_path": meant.encode(), ASKED_PATH: path}
        await self._app(scope if meant == path else known, receive, send)


class Recorder:
    """Gives each request an id, and counts and logs it: its path, status, time and tokens, and nothing that it said."""

    def __init__(
        self, app: ASGIApp, *, metrics: ServerMetrics, paths: Sequence[str], access_log: AccessLog = "text"
    ) -> None:
        self._app = app
        self._metrics = metrics
        self._access_log: AccessLog = access_log
        self._paths = frozenset(paths)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        # Paths that do not exist are one, so that nobody can fill the metrics with names.
        path = scope["path"] if scope["path"] in self._paths else "other"
        asked = scope.get(ASKED_PATH, scope["path"])
        request = RequestRecord(method=scope["method"], path=path, asked_path=asked, metrics=self._metrics)
        request.put_into(scope)

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                request.status = message["status"]
                for name in _REQUEST_ID:
                    MutableHeaders(scope=message)[name] = request.id
            await send(message)
            if message["type"] == "http.response.body" and not message.get("more_body"):
                self._record(request)

        try:
            await self._app(scope, receive, sending)
        finally:
            self._record(request)

    def _record(self, request: RequestRecord) -> None:
        """Once, where the answer ends: what is tidied up after it is not the client's time."""
        if request.is_done:
            return
        seconds = request.end()
        if self._access_log != "off":
            _LOG.info("%s", request.line(seconds, self._access_log))
