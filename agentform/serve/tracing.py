"""Requests as OpenTelemetry spans that go on from the client's trace; needs the packages of the extra "otel"."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agentform.telemetry.extras import needs
from agentform.telemetry.genai import SCOPE

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider

__all__ = ["RequestSpans"]


class RequestSpans:
    """A span of kind server for each request, current while it is served; neither bodies nor queries are in it."""

    def __init__(self, app: ASGIApp, *, paths: Sequence[str], tracer_provider: TracerProvider | None = None) -> None:
        """
        Raises:
            MissingDependency: OpenTelemetry is not installed.
        """
        with needs("otel", "opentelemetry-api"):
            from opentelemetry.trace import get_tracer
        self._app = app
        self._paths = frozenset(paths)
        self._tracer = get_tracer(SCOPE, tracer_provider=tracer_provider)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        from opentelemetry.trace import SpanKind, Status, StatusCode

        with self._tracer.start_as_current_span(
            self._name(scope),
            context=_context_of(Headers(scope=scope)),
            kind=SpanKind.SERVER,
            attributes=self._attributes(scope),
            record_exception=False,
            set_status_on_exception=False,
        ) as span:

            async def sending(message: Message) -> None:
                if message["type"] == "http.response.start":
                    span.set_attribute("http.response.status_code", message["status"])
                    if message["status"] >= 500:
                        span.set_status(Status(StatusCode.ERROR))
                await send(message)

            await self._app(scope, receive, sending)

    def _route(self, scope: Scope) -> str | None:
        return scope["path"] if scope["path"] in self._paths else None

    def _name(self, scope: Scope) -> str:
        return " ".join(filter(None, (scope["method"], self._route(scope))))

    def _attributes(self, scope: Scope) -> dict[str, Any]:
        route = self._route(scope)
        named = {} if route is None else {"http.route": route}
        return {"http.request.method": scope["method"], "url.scheme": scope.get("scheme", "http"), **named}


def _context_of(headers: Headers) -> Any:
    """The trace that the client is in, by W3C's `traceparent` or whatever the process propagates."""
    from opentelemetry.propagate import extract

    return extract({name: headers[name] for name in headers})
