"""The two servers, each in a process of its own, of the same GGUF file on as many threads."""

from __future__ import annotations

import socket
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from agentform.errors import EngineError
from benchmarks.common.processes import own_session

__all__ = ["SERVERS", "served"]

SERVERS = ("agentform", "llama_cpp")
_PATIENCE_S = 300.0


@contextmanager
def served(name: str, gguf: Path, *, threads: int, log: Path) -> Generator[str]:
    """The address of one of `SERVERS`; leaving the block ends it.

    Raises:
        EngineError: it ends, or does not answer, within five minutes.
    """
    port = _free_port()
    with log.open("wb") as said, own_session(_command(name, gguf, threads, port), said) as process:
        address = f"http://127.0.0.1:{port}"
        until = time.monotonic() + _PATIENCE_S
        while not _answers(f"{address}/health"):
            if process.poll() is not None or time.monotonic() > until:
                raise EngineError(f"{name} does not serve {gguf.name}; see {log}")
            time.sleep(0.2)
        yield address


def _command(name: str, gguf: Path, threads: int, port: int) -> list[str]:
    if name != "agentform":
        return [sys.executable, "-m", "benchmarks.bfcl.llama_server", str(gguf), str(port), str(threads)]
    options = {
        "--model": gguf,
        "--engine": "llama_cpp",
        "--served-name": "served",
        "--access-log": "off",
        "--port": port,
        "--num-threads": threads,
    }
    return [sys.executable, "-m", "agentform", "serve", *(str(word) for pair in options.items() for word in pair)]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return answer.status == 200
    except (OSError, urllib.error.URLError):
        return False
