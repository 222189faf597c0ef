"""Connections that say nothing, or too slowly, do not stay, and never keep out those that have something to say.

Nor does one that says very much: it is read a few pieces at a time.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from agentform.serve.body_pieces import PiecewiseConnection
from agentform.serve.problems import Problem

__all__ = ["ConnectionLimits", "watched"]


_GRACE_S = 1.0
"""Many connections at once are no reason to close one whose request is on its way."""


@dataclass(frozen=True, kw_only=True)
class ConnectionLimits:
    """What a connection may cost."""

    most: int
    """Connections at once. One more, and the one that has been without a whole request for longest is closed, if it had
    a second to send one; at twice as many even if it had not."""
    header_timeout_s: float
    """Seconds in which a request's headers must be there, from the first moment and from the last answer on."""
    write_timeout_s: float
    """Seconds in which a client must take some of what it is sent."""


class _TimedProtocol(H11Protocol):
    """uvicorn's protocol with deadlines for whatever waits for the client."""

    limits: ClassVar[ConnectionLimits]
    _waits: asyncio.TimerHandle | None = None
    _writes: asyncio.TimerHandle | None = None
    _since: float = 0.0
    _behind: asyncio.Handle | None = None

    def __init__(self, config: Any, *args: Any, **keywords: Any) -> None:
        super().__init__(config, *args, **keywords)
        self.conn = PiecewiseConnection(config.h11_max_incomplete_event_size)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._since = self.loop.time()
        self._wait()
        self._make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        _cancel(self._waits, self._writes, self._behind)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._behind is not None:  # what came before has its turn first
            self.conn.receive_data(data)
            if not self.transport.is_closing():
                self.transport.pause_reading()
            return
        super().data_received(data)
        if self._has_request:
            _cancel(self._waits)

    def handle_events(self) -> None:
        """Of what has come, as much as one turn of the event loop may take; the rest in later ones."""
        conn = cast("PiecewiseConnection", self.conn)
        was_behind = self._behind is not None
        _cancel(self._behind)
        self._behind = None
        conn.begin_turn()
        super().handle_events()
        if self.transport.is_closing():
            return
        if conn.has_more:
            self.transport.pause_reading()
            self._behind = self.loop.call_soon(self.handle_events)
        elif was_behind and not self.flow.read_paused:
            self.transport.resume_reading()

    def send_400_response(self, msg: str) -> None:
        """What cannot be read as HTTP is told so, as far as no answer has begun; then the connection ends."""
        problem = Problem(status=400, code="invalid_http", message="this is no HTTP request that can be read here")
        body = json.dumps(problem.body()).encode()
        headers = [(b"content-type", b"application/json"), (b"connection", b"close")]
        length = (b"content-length", b"%d" % len(body))
        with suppress(h11.LocalProtocolError):
            for event in (
                h11.Response(status_code=400, headers=[*headers, length], reason=b"Bad Request"),
                h11.Data(data=body),
                h11.EndOfMessage(),
            ):
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._since = self.loop.time()
        if not self.transport.is_closing():
            self._wait()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._writes = self.loop.call_later(self.limits.write_timeout_s, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        _cancel(self._writes)

    @property
    def _has_request(self) -> bool:
        """Whether a request's headers have come, and its answer has not ended."""
        return self.cycle is not None and not self.cycle.response_complete

    @property
    def _is_served(self) -> bool:
        """Whether there is a whole request to answer."""
        return self._has_request and not self.cycle.more_body

    def _wait(self) -> None:
        """Bytes that trickle in do not put the deadline off."""
        _cancel(self._waits)
        self._waits = self.loop.call_later(self.limits.header_timeout_s, self._give_up)

    def _give_up(self) -> None:
        if not self._has_request:
            self.transport.close()

    def _make_room(self) -> None:
        while (num := len(self.connections)) > self.limits.most:
            others = [each for each in cast("set[Any]", self.connections) if isinstance(each, _TimedProtocol)]
            silent = [each for each in others if each is not self and not each._is_served]
            oldest = min(silent, key=lambda each: each._since, default=None)
            if oldest is None or (self.loop.time() - oldest._since < _GRACE_S and num <= 2 * self.limits.most):
                return
            self.connections.discard(oldest)  # now: it is told of its end later
            oldest.transport.abort()


def watched(limits: ConnectionLimits) -> type[asyncio.Protocol]:
    """A class of protocols for uvicorn that keep to `limits`."""

    class Watched(_TimedProtocol):
        pass

    Watched.limits = limits
    return Watched


def _cancel(*timers: asyncio.Handle | None) -> None:
    for timer in timers:
        if timer is not None:
            timer.cancel()
