"""Connections that say nothing, or too slowly, do not stay, and never keep out those that have something to say."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, ClassVar, cast

from uvicorn.protocols.http.h11_impl import H11Protocol

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

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._since = self.loop.time()
        self._wait()
        self._make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        _cancel(self._waits, self._writes)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._has_request:
            _cancel(self._waits)

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


def _cancel(*timers: asyncio.TimerHandle | None) -> None:
    for timer in timers:
        if timer is not None:
            timer.cancel()
