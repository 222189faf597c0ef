"""A real server in a thread of its own, for clients that speak HTTP."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from agentform.runtime.engine import Engine
from agentform.serve.app import Service
from agentform.serve.run import Server
from agentform.serve.settings import ServerSettings

__all__ = ["Running", "running"]


@dataclass(frozen=True)
class Running:
    """A server that answers at `url`."""

    service: Service
    server: Server
    thread: threading.Thread
    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def settled(self) -> None:
        """Wait until no request runs or waits."""
        until = time.monotonic() + 10
        while not self.service.admission.idle:
            assert time.monotonic() < until, "a request is still running"
            time.sleep(0.005)


@contextmanager
def running(engine: Engine, **settings) -> Iterator[Running]:
    """Serve `engine` at a free port; leaving the block stops the server."""
    service = Service(engine=engine, settings=ServerSettings(**{"grace_s": 0.2, **settings}))
    server = Server(service)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield Running(service, server, thread, listener.getsockname()[1])
        finally:
            server.stop()
            thread.join(timeout=20)
            assert not thread.is_alive()
