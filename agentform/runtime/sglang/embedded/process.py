"""The process that owns SGLang, seen from the user's: started, spoken to, watched and ended."""

from __future__ import annotations

import contextlib
import itertools
import json
import logging
import os
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any

from agentform.errors import EngineClosed, EngineError
from agentform.runtime.sglang.wire.replies import error_of
from agentform.runtime.thread_channel import Mailbox

__all__ = ["Pending", "SGLangProcess"]

_log = logging.getLogger("agentform.sglang")
_REMEMBERED_LINES = 40
_SHOWN_CHARACTERS = 1500
_END_WITHIN_S = 60.0


@dataclass(frozen=True, kw_only=True)
class Pending:
    """A request under way; its mailbox gets replies, `None` after the last, or an error."""

    number: int
    mailbox: Mailbox[Any]


class SGLangProcess:
    """All methods are safe to call from any thread; `__init__` and `close` block.

    What SGLang prints goes to the logger `agentform.sglang`, and the end of it into the error when SGLang dies.
    """

    def __init__(self, arguments: Mapping[str, Any], environment: Mapping[str, str]) -> None:
        """Start SGLang with these server arguments and wait until it serves.

        `environment` is added to that of this process.

        Raises:
            EngineError: SGLang did not start.
        """
        self._numbers = itertools.count(1)
        self._pending: dict[int, Mailbox[Any]] = {}
        self._lock = threading.Lock()  # guards `_pending` and `_closed`
        self._closed: EngineClosed | None = None
        self._outgoing: SimpleQueue[bytes | None] = SimpleQueue()
        self._lines: deque[str] = deque(maxlen=_REMEMBERED_LINES)
        self._process, self._link = _spawn(environment)
        self._printing = self._thread(self._read_output)
        self._writing = self._thread(self._write)
        self._send(arguments)
        self.facts: Mapping[str, Any] = self._wait_until_ready()
        """What the child found out: see `agentform.runtime.sglang.embedded.child`."""
        self._reading = self._thread(self._read)

    def submit(self, body: Mapping[str, Any]) -> Pending:
        """Send a request; call it inside the event loop that will read the replies.

        Raises:
            EngineClosed: the engine is closed, or its worker died.
        """
        return self._ask({"body": body})

    async def num_running(self) -> int:
        """Requests that SGLang has not let go of; for tests and debugging.

        Raises:
            EngineClosed: the engine is closed, or its worker died.
        """
        return await self._ask({"count": True}).mailbox.get()

    def _ask(self, message: Mapping[str, Any]) -> Pending:
        pending = Pending(number=next(self._numbers), mailbox=Mailbox())
        with self._lock:
            if self._closed is not None:
                raise EngineClosed(*self._closed.args)
            self._pending[pending.number] = pending.mailbox
        self._send({"id": pending.number, **message})
        return pending

    def abort(self, pending: Pending) -> None:
        """Drop a request; harmless when it is done."""
        with self._lock:
            known = self._pending.pop(pending.number, None)
        if known is not None:
            self._send({"abort": pending.number})

    def close(self) -> None:
        """End SGLang and all its processes; requests under way end with EngineClosed. Twice is harmless."""
        self._shut(EngineClosed("the engine is closed"))
        self._send({"close": True})
        if threading.current_thread() is self._reading:
            return
        self._reading.join(_END_WITHIN_S)
        if self._reading.is_alive():
            os.killpg(self._process.pid, signal.SIGKILL)
            self._reading.join()

    def _thread(self, target: Any) -> threading.Thread:
        thread = threading.Thread(target=target, name="agentform-sglang", daemon=True)
        thread.start()
        return thread

    def _send(self, message: Mapping[str, Any]) -> None:
        self._outgoing.put(json.dumps(message, default=str).encode())

    def _write(self) -> None:
        """A socket that is full blocks this thread and no event loop."""
        with contextlib.suppress(OSError):
            while (data := self._outgoing.get()) is not None:
                self._link.send_bytes(data)

    def _receive(self) -> Mapping[str, Any] | None:
        try:
            return json.loads(self._link.recv_bytes())
        except (EOFError, OSError):
            return None

    def _wait_until_ready(self) -> Mapping[str, Any]:
        message: Mapping[str, Any] = {}
        try:
            message = self._receive() or {}
        finally:
            if "ready" not in message:  # after Ctrl-C too: nobody would end what has been started
                self._reap()
                self._link.close()
        if "ready" not in message:
            raise EngineError(f"SGLang did not start: {message.get('failed', 'its process ended')}{self._last_words()}")
        return message["ready"]

    def _read(self) -> None:
        reason = "its process ended"
        while (message := self._receive()) is not None:
            if "died" in message:
                reason = message["died"]
                break
            self._deliver(message)
        self._reap()
        self._shut(EngineClosed(f"SGLang died: {reason}{self._last_words()}"))
        self._link.close()

    def _deliver(self, message: Mapping[str, Any]) -> None:
        is_last = "reply" not in message
        with self._lock:
            take = self._pending.pop if is_last else self._pending.get
            mailbox = take(message["id"], None)
        if mailbox is None:
            return  # aborted in between
        if "error" in message:
            mailbox.put(error_of(message["error"], status=message["status"]))
        else:
            mailbox.put(message.get("reply"))

    def _shut(self, reason: EngineClosed) -> None:
        """Refuse what comes and fail what is under way; the first reason stays."""
        with self._lock:
            self._closed = self._closed or reason
            mailboxes, self._pending = list(self._pending.values()), {}
        for mailbox in mailboxes:
            mailbox.put(EngineClosed(*self._closed.args))

    def _reap(self) -> None:
        """Nothing of SGLang's outlives this: its processes share one group, whatever state they are in."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._outgoing.put(None)
        self._printing.join(5.0)

    def _read_output(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as stream:
            for line in stream:
                if line.strip():
                    self._lines.append(line.rstrip())
                    _log.info("%s", line.rstrip())

    def _last_words(self) -> str:
        said = "\n".join(self._lines)[-_SHOWN_CHARACTERS:]
        return f"; it said last:\n{said}" if said else ""


def _spawn(environment: Mapping[str, str]) -> tuple[subprocess.Popen[str], Connection]:
    """A session of its own: signals of the terminal do not reach it, and its process group is SGLang's alone."""
    here, there = Pipe()
    with there:
        # What can be imported here can be imported there.
        path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "agentform.runtime.sglang.embedded.child", str(there.fileno())],
            pass_fds=[there.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, **environment, "PYTHONPATH": path},
            encoding="utf-8",
            errors="replace",
            start_new_session=True,
        )
    return process, here
