"""One peer in a process of its own, asked over pipes and stopped while others are measured."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from benchmarks.peers.memory import descendants
from benchmarks.peers.task import Model, Task, Written

__all__ = ["PeerFailed", "Process"]

_ROOT = Path(__file__).parents[2]


class PeerFailed(Exception):
    """Raised when a peer reports an error, dies or does not answer in time."""


class Process:
    """A child that runs `benchmarks.peers.child`.

    Between requests it is stopped, with all its descendants: an idle server that polls, or threads that spin, would
    take time from whoever is measured meanwhile.
    """

    def __init__(self, python: Path, driver: str, log: Path, *, command: list[str] | None = None) -> None:
        """Start it; `command` replaces what is run, for tests."""
        self.started = time.perf_counter()
        self._log = log
        with log.open("wb") as errors:
            self._child = subprocess.Popen(
                command or [str(python), "-m", "benchmarks.peers.child", driver],
                cwd=_ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
            )
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._stdin, self._stdout = self._child.stdin, self._child.stdout
        self._answers = b""
        self._late = False

    def load(self, model: Model, *, limit_s: float = 600) -> dict[str, Any]:
        """Load the weights; what the peer was set to. Raises PeerFailed."""
        return self.ask({"op": "load", "model": vars(model)}, limit_s=limit_s)

    def run(self, task: Task, *, limit_s: float = 300) -> Written:
        """Do one task. Raises PeerFailed."""
        return Written(**self.ask({"op": "run", "task": task.as_json()}, limit_s=limit_s))

    def ask(self, request: dict[str, Any], *, limit_s: float = 60) -> Any:
        """Send a request and wait for its answer. Raises PeerFailed."""
        self._signal(signal.SIGCONT)
        try:
            self._stdin.write(json.dumps(request).encode() + b"\n")
            self._stdin.flush()
            answer = json.loads(self._line(limit_s))
        except OSError as error:
            raise PeerFailed(self._death()) from error
        self._signal(signal.SIGSTOP)
        if "error" in answer:
            raise PeerFailed(answer["error"])
        return answer["value"]

    @property
    def is_gone(self) -> bool:
        """Whether the process has ended, or is at something that it was not given the time for."""
        return self._late or self._child.poll() is not None

    def close(self) -> None:
        """End it and all below it; again, does nothing."""
        if self._stdin.closed:
            return
        self._signal(signal.SIGCONT)
        below = descendants(self._child.pid)
        with suppress(OSError, subprocess.TimeoutExpired):
            self._stdin.write(b'{"op": "quit"}\n')
            self._stdin.flush()
            self._child.wait(timeout=10)
        for pid in [*below, self._child.pid]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._child.wait()
        with suppress(OSError):
            self._stdin.close()
        self._stdout.close()

    def _line(self, limit_s: float) -> bytes:
        """The next line. Raises PeerFailed when the process ends or the time is over."""
        until = time.monotonic() + limit_s
        while b"\n" not in self._answers:
            ready, _, _ = select.select([self._stdout], [], [], max(0.0, until - time.monotonic()))
            if not ready:
                self._late = True
                raise PeerFailed(f"no answer within {limit_s:g} s")
            read = os.read(self._stdout.fileno(), 1 << 16)
            if not read:
                raise PeerFailed(self._death())
            self._answers += read
        line, _, self._answers = self._answers.partition(b"\n")
        return line

    def _death(self) -> str:
        with suppress(subprocess.TimeoutExpired):
            self._child.wait(timeout=5)
        words = [line for line in self._log.read_text(errors="replace").splitlines() if line.strip()]
        return f"the process ended with status {self._child.returncode}: {words[-1].strip() if words else 'no output'}"

    def _signal(self, number: int) -> None:
        for pid in [self._child.pid, *descendants(self._child.pid)]:
            with suppress(ProcessLookupError):
                os.kill(pid, number)
