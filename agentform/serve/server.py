"""Runs a service under uvicorn until it is told to stop; requests that run then get a grace time."""

from __future__ import annotations

import logging
import time
from types import FrameType

import uvicorn

from agentform.serve.app import Service
from agentform.serve.connections import ConnectionLimits, watched
from agentform.serve.settings import ServerSettings

__all__ = ["Server"]

_LOG = logging.getLogger("agentform.serve")
_SPARE_CONNECTIONS = 128
"""Connections beyond those of admitted requests: idle ones, health checks, refusals."""
_LAST_ANSWERS_S = 3


def _limits(settings: ServerSettings) -> ConnectionLimits:
    return ConnectionLimits(
        most=settings.max_running + settings.max_queued + _SPARE_CONNECTIONS,
        header_timeout_s=settings.header_timeout_s,
        write_timeout_s=settings.write_timeout_s,
    )


class Server(uvicorn.Server):
    """A uvicorn server that refuses new requests with 503 while the running ones end.

    The first SIGINT or SIGTERM begins this; the second, or the end of the grace time, ends the running ones too, and
    their clients are told.
    """

    def __init__(self, service: Service) -> None:
        settings = service.settings
        super().__init__(
            uvicorn.Config(
                service.app,
                host=settings.host.strip("[]"),
                port=settings.port,
                log_config=None,
                access_log=False,
                server_header=False,
                lifespan="off",
                ws="none",
                http=watched(_limits(settings)),
                h11_max_incomplete_event_size=64 << 10,
                timeout_graceful_shutdown=_LAST_ANSWERS_S,
            )
        )
        self._service = service
        self._end_at: float | None = None

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Called by uvicorn on a signal."""
        del sig, frame
        self.stop()

    def stop(self) -> None:
        """Begin to stop; the second time, stop now. May be called from any thread and from signal handlers."""
        self._service.admission.drain()
        now = time.monotonic()
        self._end_at = now + self._service.settings.grace_s if self._end_at is None else now

    async def on_tick(self, counter: int) -> bool:
        """Called by uvicorn ten times a second; whether to stop."""
        if await super().on_tick(counter):
            return True
        if self._end_at is None:
            return False
        if self._service.admission.idle:
            return True
        if time.monotonic() >= self._end_at:
            _LOG.warning("the grace time is over; requests that still run are ended")
            self._service.admission.cancel_all()
            return True
        return False
