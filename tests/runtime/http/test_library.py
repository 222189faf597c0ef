"""The successor of httpx serves where httpx is not installed."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("httpx2")

_PROGRAM = """
import sys
sys.modules["httpx"] = None  # as if it were not installed
import anyio, httpx2
from agentform.runtime.http.connection import Connection
from agentform.runtime.http.transport import Transport

def answer(request):
    if request.url.path == "/stream":
        return httpx2.Response(200, text='data: {"n": 1}\\n\\ndata: {"n": 2}\\n\\n')
    return httpx2.Response(200, json={"path": request.url.path})

both = {"transport": httpx2.MockTransport(answer), "async_transport": httpx2.MockTransport(answer)}
transport = Transport(Connection(url="http://host", **both))
assert transport.ask_now("GET", "/now") == {"path": "/now"}

async def main():
    assert await transport.ask("/later", {}) == {"path": "/later"}
    assert [event["n"] async for event in transport.events("/stream", {})] == [1, 2]
    await transport.aclose()

anyio.run(main)
"""


def test_httpx2_alone_is_enough():
    done = subprocess.run([sys.executable, "-c", _PROGRAM], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
