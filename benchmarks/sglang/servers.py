"""SGLang servers and their router as processes, on the CPU, for what measures or tests them."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import IO

import httpx

from agentform.errors import InvalidInput
from benchmarks.common.processes import ROOT, kill_group, own_session

__all__ = ["Running", "free_port", "router", "server", "servers", "sglang_python"]

_START_S = 600.0
_CPU: dict[str, str | int | bool] = {
    "device": "cpu",
    "attention_backend": "torch_native",
    "sampling_backend": "pytorch",
    "grammar_backend": "llguidance",
    "mem_fraction_static": "0.5",
    "log_level": "warning",
    "disable_cuda_graph": True,
    "disable_overlap_schedule": True,
    "skip_server_warmup": True,
    "sleep_on_idle": True,
}


class Running:
    """A process that serves at `url`, and the processes that it started."""

    def __init__(self, url: str, process: subprocess.Popen[bytes]) -> None:
        self.url = url
        self.process = process

    def kill(self) -> None:
        """End all of its processes at once."""
        kill_group(self.process)


def sglang_python() -> Path:
    """The Python that SGLang is installed for: SGLANG_PYTHON, this one, or what `make test-sglang` made.

    Raises:
        InvalidInput: there is none.
    """
    made = ROOT / ".venv-sglang" / "bin" / "python"
    for python in filter(None, (os.environ.get("SGLANG_PYTHON"), sys.executable, made)):
        found = Path(python)
        folders = (found.parents[1] / "lib").glob("python*/site-packages/sglang")
        if found.exists() and any(folders):
            return found
    raise InvalidInput("no Python with SGLang: run `make test-sglang` once, or name one with SGLANG_PYTHON")


def free_port() -> int:
    """A port that nothing listens at now."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


@contextmanager
def server(model: Path, *, port: int = 0, **options: str | int | bool) -> Generator[Running, None, None]:
    """One server, ready; `options` are SGLang's, with underscores; True for those without a value."""
    with _server(model, port, options) as (running, log):
        _wait_until_ready(running, "/health", 0, log)
        yield running


@contextmanager
def servers(model: Path, number: int, **options: str | int | bool) -> Generator[list[Running], None, None]:
    """Several, started at once."""
    with ExitStack() as stack:
        started = [stack.enter_context(_server(model, 0, options)) for _ in range(number)]
        for running, log in started:
            _wait_until_ready(running, "/health", 0, log)
        yield [running for running, _ in started]


@contextmanager
def router(
    workers: Sequence[str], *, policy: str, port: int = 0, **options: str | int | bool
) -> Generator[Running, None, None]:
    """The router before servers, ready when it knows them all."""
    port = port or free_port()
    # Each needs a port of its own for its metrics, wanted or not.
    own = {"host": "127.0.0.1", "port": port, "policy": policy, "prometheus_port": free_port(), "log_level": "warn"}
    command = ["-m", "sglang_router.launch_router", *_arguments(own | options), "--worker-urls", *workers]
    with _process(command, f"http://127.0.0.1:{port}") as (running, log):
        _wait_until_ready(running, "/workers", len(workers), log)
        yield running


def _server(
    model: Path, port: int, options: Mapping[str, str | int | bool]
) -> AbstractContextManager[tuple[Running, IO[bytes]]]:
    port = port or free_port()
    arguments = _arguments({"model_path": str(model), "port": port, **_CPU, **options})
    return _process(["-m", "sglang.launch_server", *arguments], f"http://127.0.0.1:{port}")


def _arguments(options: Mapping[str, str | int | bool]) -> list[str]:
    found: list[str] = []
    for key, value in options.items():
        found.append(f"--{key.replace('_', '-')}")
        found += [] if value is True else [str(value)]
    return found


@contextmanager
def _process(command: Sequence[str], url: str) -> Generator[tuple[Running, IO[bytes]], None, None]:
    words = [str(sglang_python()), *command]
    with tempfile.TemporaryFile() as log, own_session(words, log, OMP_NUM_THREADS="1") as process:
        yield Running(url, process), log


def _wait_until_ready(running: Running, path: str, num_workers: int, log: IO[bytes]) -> None:
    until = time.monotonic() + _START_S
    while time.monotonic() < until:
        if running.process.poll() is not None:
            break
        try:
            reply = httpx.get(running.url + path, timeout=30)
            if reply.status_code == 200 and (not num_workers or _num_healthy(reply) == num_workers):
                return
        except httpx.HTTPError:
            pass
        time.sleep(0.5)
    log.seek(0)
    raise InvalidInput(f"{running.url} did not come up; it said last:\n{log.read().decode(errors='replace')[-3000:]}")


def _num_healthy(reply: httpx.Response) -> int:
    return sum(worker["is_healthy"] for worker in reply.json()["workers"])
