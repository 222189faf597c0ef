"""A server for each feature, whose engine follows the script of that feature."""

from __future__ import annotations

import socket
import threading
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager

from agentform.serve import Server, ServerSettings, Service
from agentform.testing import Call, Fill, Say, ScriptedEngine
from benchmarks.clients.roster import ClientPackage

__all__ = ["FEATURES", "served_features"]

FEATURES = ("answer", "stream", "loop", "streamed_loop", "form", "evidence")
_ABOUT = "It is dark in the office."


@contextmanager
def served_features(client: ClientPackage, variant: str) -> Generator[Mapping[str, str]]:
    """By feature the address of its server; leaving the block stops them."""
    with ExitStack() as stack:
        yield {name: stack.enter_context(_served(_engine(name, client, variant))) for name in FEATURES}


def _engine(feature: str, client: ClientPackage, variant: str) -> ScriptedEngine:
    light = Call("light", {"room": "office"}, text="It is dark there.")
    last = Say("It is on.") if client.last_call is None else Call(client.last_call, {"answer": "It is on."})
    mood = {"mood": "bad"}
    by_tool = client.form_tool is not None and variant != "schema"
    scripts = {
        "answer": [Say("Hello there.")],
        "stream": [Say("Hello there.")],
        "loop": [light, last],
        "streamed_loop": [light, last],
        "form": [Call(client.form_tool or "", mood)] if by_tool else [Fill(_ABOUT, mood)],
        "evidence": [Say("Hello there.")],
    }
    return ScriptedEngine(scripts[feature])


@contextmanager
def _served(engine: ScriptedEngine) -> Generator[str]:
    server = Server(Service(engine=engine, settings=ServerSettings(grace_s=0.2)))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.stop()
            thread.join()
