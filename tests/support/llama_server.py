"""llama.cpp's own HTTP server, as xllamacpp brings it, in a process that ends with the block."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["llama_server"]

_PROGRAM = """
import sys, xllamacpp
path, context_tokens, num_slots, key = sys.argv[1:]
settings = xllamacpp.CommonParams()
settings.model.path = path
settings.n_parallel = int(num_slots)
settings.n_ctx = int(context_tokens) * int(num_slots)
settings.kv_unified = False
settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = 1
settings.port, settings.warmup, settings.fit_params = 0, False, False
if key:
    settings.api_keys = [key]
server = xllamacpp.Server(settings)
print("listening at", server.listening_address, flush=True)
sys.stdin.read()
"""


@contextmanager
def llama_server(gguf: Path, *, context_tokens: int, num_slots: int, api_key: str = "") -> Iterator[str]:
    """Serve a file; gives the address."""
    command = [sys.executable, "-c", _PROGRAM, str(gguf), str(context_tokens), str(num_slots), api_key]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        yield _address(process)
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            pipe.close()


def _address(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("listening at "):
            return line.removeprefix("listening at ").strip()
    raise RuntimeError(f"the server ended with {process.wait()}")
