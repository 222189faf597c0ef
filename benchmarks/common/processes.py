"""Processes that are asked over pipes, a JSON object a line each way, and how they are watched and ended.

Parent and child speak so::

    {"op": "run", ...}       ──▶   one of the child's operations
    {"value": ...}           ◀──   what it gave back, or {"error": "ValueError: no"}
    {"op": "quit"}           ──▶   the child ends

Imported in environments that hold nothing of agentform: the standard library only.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

__all__ = [
    "ROOT",
    "Child",
    "ChildFailed",
    "answer_lines",
    "cpu_seconds",
    "descendants",
    "kill_group",
    "own_session",
    "peak_bytes",
    "serve_pipes",
]

ROOT = Path(__file__).parents[2]
_PROCESSES = Path("/proc")
_TICKS = os.sysconf("SC_CLK_TCK")

Operations = Mapping[str, Callable[[dict[str, Any]], Any]]


class ChildFailed(Exception):
    """Raised when a child reports an error, dies or does not answer in time."""


class Child:
    """One process, started at once; its errors and whatever it prints go to `log`."""

    def __init__(self, command: Sequence[str], log: Path, *, stops: bool = False) -> None:
        """`stops`: between requests it is stopped (SIGSTOP), with all below it, so that it takes nobody's time."""
        self.started = time.perf_counter()
        self._log = log
        self._stops = stops
        with log.open("wb") as errors:
            self._process = subprocess.Popen(
                command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors
            )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._stdin, self._stdout = self._process.stdin, self._process.stdout
        self._answers = b""
        self._late = False

    def ask(self, request: Mapping[str, Any], *, limit_s: float = 60) -> Any:
        """Send a request and wait for its answer.

        Raises:
            ChildFailed: it reported an error, died or did not answer in time.
        """
        self._signal(signal.SIGCONT)
        try:
            self._stdin.write(json.dumps(request).encode() + b"\n")
            self._stdin.flush()
            answer = json.loads(self._line(limit_s))
        except OSError as error:
            raise ChildFailed(self._death()) from error
        self._signal(signal.SIGSTOP)
        if "error" in answer:
            raise ChildFailed(answer["error"])
        return answer["value"]

    @property
    def is_gone(self) -> bool:
        """Whether the process has ended, or is at something that it was not given the time for."""
        return self._late or self._process.poll() is not None

    def close(self, *, grace_s: float = 10) -> None:
        """End it and all below it, after `grace_s` seconds by force; again, does nothing."""
        if self._stdin.closed:
            return
        self._signal(signal.SIGCONT)
        below = descendants(self._process.pid)
        with suppress(OSError, subprocess.TimeoutExpired):
            self._stdin.write(b'{"op": "quit"}\n')
            self._stdin.flush()
            self._process.wait(timeout=0 if self._late else grace_s)
        for pid in [*below, self._process.pid]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait()
        with suppress(OSError):
            self._stdin.close()
        self._stdout.close()

    def _line(self, limit_s: float) -> bytes:
        until = time.monotonic() + limit_s
        while b"\n" not in self._answers:
            ready, _, _ = select.select([self._stdout], [], [], max(0.0, until - time.monotonic()))
            if not ready:
                self._late = True
                raise ChildFailed(f"no answer within {limit_s:g} s")
            read = os.read(self._stdout.fileno(), 1 << 16)
            if not read:
                raise ChildFailed(self._death())
            self._answers += read
        line, _, self._answers = self._answers.partition(b"\n")
        return line

    def _death(self) -> str:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=5)
        words = [line for line in self._log.read_text(errors="replace").splitlines() if line.strip()]
        last = words[-1].strip() if words else "no output"
        return f"the process ended with status {self._process.returncode}: {last}"

    def _signal(self, number: int) -> None:
        """A stopped child does not notice that its parent is gone: whoever starts some has to close them."""
        if self._stops:
            for pid in [self._process.pid, *descendants(self._process.pid)]:
                with suppress(ProcessLookupError):
                    os.kill(pid, number)


def answer_lines(operations: Operations, requests: IO[str], answers: IO[str]) -> None:
    """The child's side: answer every line until `quit` or the end; an error is an answer too."""
    for line in requests:
        asked = json.loads(line)
        try:
            answer = {"value": operations[asked["op"]](asked)}
        except Exception as error:  # whatever is raised is for the parent to report
            traceback.print_exc()
            answer = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
        if asked["op"] == "quit":
            return


def serve_pipes(operations: Operations) -> None:
    """Answer the parent on standard input and output, then end; what is printed goes to the log."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    answer_lines({"quit": lambda asked: None, **operations}, sys.stdin, answers)
    answers.close()
    os._exit(0)  # threads and children do not hold the process


@contextmanager
def own_session(
    command: Sequence[str], log: IO[bytes], **environment: str
) -> Generator[subprocess.Popen[bytes], None, None]:
    """A process with a session of its own, which says to `log` what it says; leaving the block ends it and all in it.

    `environment` is beside what this process has.
    """
    process = subprocess.Popen(
        command,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        stdout=log.fileno(),
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        kill_group(process)


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """End a process that began a session of its own, and all in it, at once."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(30)


def peak_bytes(pid: int) -> int | None:
    """The most memory that a process and all below it have held: the sum of their VmHWM; None without /proc.

    Pages that several of them share, such as a mapped file, count for each.
    """
    peaks = [_peak(number) for number in (pid, *descendants(pid))]
    known = [peak for peak in peaks if peak is not None]
    return sum(known) if known else None


def cpu_seconds() -> float:
    """Processor time of this process and of all below it; that of the latter in steps of a clock tick."""
    return time.process_time() + sum(_cpu(pid) for pid in descendants(os.getpid()))


def descendants(pid: int) -> list[int]:
    """Process ids below `pid`."""
    below: list[int] = []
    for file in _PROCESSES.glob(f"{pid}/task/*/children"):
        try:
            children = [int(word) for word in file.read_text().split()]
        except OSError:  # it has just ended
            continue
        for child in children:
            below += [child, *descendants(child)]
    return below


def _peak(pid: int) -> int | None:
    try:
        lines = (_PROCESSES / str(pid) / "status").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")), None)


def _cpu(pid: int) -> float:
    try:
        words = (_PROCESSES / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(words[11]) + int(words[12])) / _TICKS  # user and system
