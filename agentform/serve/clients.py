"""Who asks: holders of different keys share an engine, and nothing else that one could tell of the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256

from starlette.requests import Request

from agentform.agent.responder import Responder
from agentform.runtime.engine import Engine
from agentform.runtime.scoped import ScopedEngine

__all__ = ["CLIENT", "Client", "Clients", "client_of"]

CLIENT = "agentform.client"
"""Where the guard of keys leaves the name of the client in a request's state."""


def client_of(key: str) -> str:
    """A name for the holder of a key that says nothing of the key and is the same after a restart."""
    return sha256(b"agentform client\0" + key.encode()).hexdigest()[:24]


@dataclass(frozen=True)
class Client:
    """What one client is served with."""

    name: str
    """Empty where no key is needed: then all are one client."""
    engine: Engine
    responder: Responder


class Clients:
    """One client per key."""

    def __init__(
        self, engine: Engine, keys: Sequence[str], responder: Callable[[Engine], Responder], *, share_cache: bool
    ) -> None:
        scoped = {name: ScopedEngine(engine, name, share_cache=share_cache) for name in map(client_of, keys)}
        engines: dict[str, Engine] = {**scoped} or {"": engine}
        self._clients = {name: Client(name, each, responder(each)) for name, each in engines.items()}

    def of(self, request: Request) -> Client:
        """The client whose request this is; the guard before has let it in."""
        return self._clients[request.scope.get("state", {}).get(CLIENT, "")]
