"""llama.cpp's own server with its own tool parser: `python -m benchmarks.bfcl.llama_server GGUF PORT THREADS`."""

from __future__ import annotations

import importlib
import signal
import sys
from typing import Any

__all__ = ["main"]

_CONTEXT_TOKENS = 8192


def main(gguf: str, port: str, threads: str) -> None:
    """Serve until a signal comes."""
    llama: Any = importlib.import_module("xllamacpp")  # it comes without types
    params = llama.CommonParams()
    params.model.path = gguf
    params.hostnames, params.port = ["127.0.0.1"], int(port)
    params.n_ctx, params.n_parallel = _CONTEXT_TOKENS, 1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = int(threads)
    params.use_jinja = True
    server = llama.Server(params)
    print(server.listening_address, flush=True)
    signal.sigwait({signal.SIGTERM, signal.SIGINT})


if __name__ == "__main__":
    main(*sys.argv[1:])
