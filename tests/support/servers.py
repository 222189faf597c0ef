"""A real server in a thread of its own, for clients that speak HTTP."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from agentform.runtime.engine import Engine
from agentform.serve.app import Service
from agentform.serve.server import Server
from agentform.serve.settings import ServerSettings
from agentform.tools.toolset import Toolbox
from tests.support.waiting import Background, wait_until

__all__ = ["Running", "running"]


@dataclass(frozen=True)
class Running:
    """A server that answers at `url`."""

    service: Service
    server: Server
    thread: Background
    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def settled(self) -> None:
        """Wait until no request runs or waits."""
        wait_until(lambda: self.service.admission.idle, "the end of a request")


@contextmanager
def running(engine: Engine, *, tools: Toolbox | None = None, **settings) -> Iterator[Running]:
    """Serve `engine` at a free port, with tools of the server's own; leaving the block stops the server."""
    service = Service(engine=engine, own_tools=tools, settings=ServerSettings(**{"grace_s": 0.2, **settings}))
    server = Server(service)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = Background(lambda: server.run(sockets=[listener]))
        try:
            yield Running(service, server, thread, listener.getsockname()[1])
        finally:
            server.stop()
            thread.done()
