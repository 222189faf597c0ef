"""The thread that owns the model and the cache."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from typing import TypeVar

from agentform.errors import EngineClosed
from agentform.runtime.scheduling.request import Job
from agentform.runtime.scheduling.scheduler import Scheduler

__all__ = ["Worker"]

T = TypeVar("T")


class Worker:
    """Runs a scheduler in a thread of its own.

    All methods are safe to call from any thread; only `call` and `close` block.
    """

    def __init__(self, scheduler: Scheduler, *, prepare_thread: Callable[[], None]) -> None:
        """`scheduler` belongs to the worker from now on; `prepare_thread` runs first in the new thread."""
        self._commands: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._scheduler = scheduler
        self._prepare_thread = prepare_thread
        self._closing = False
        self._closed: EngineClosed | None = None
        self._lock = threading.Lock()  # guards `_closed` against a submission after the last drain
        self._thread = threading.Thread(target=self._run, name="agentform-engine", daemon=True)
        self._thread.start()

    def submit(self, job: Job) -> None:
        """Queue a request.

        Raises:
            EngineClosed: the engine is closed, or its worker died.
        """
        self._send(lambda: self._scheduler.submit(job))

    def cancel(self, job: Job) -> None:
        """Drop a request; harmless when it is done or the worker is closed."""
        self.post(lambda: self._scheduler.cancel(job))

    def post(self, function: Callable[[], None]) -> None:
        """Run `function` between two steps and do not wait for it; harmless when the worker is closed."""
        with contextlib.suppress(EngineClosed):
            self._send(function)

    def call(self, function: Callable[[], T]) -> T:
        """Run `function` between two steps and wait for its result.

        Raises:
            EngineClosed: the engine is closed, or its worker died.
        """
        future: Future[T] = Future()

        def command() -> None:
            try:
                future.set_result(function())
            except BaseException as error:
                future.set_exception(error)

        self._send(command)
        return future.result()

    def has_requests(self) -> bool:
        """Whether any request is queued or running; exact inside `call` only."""
        return self._scheduler.has_work

    def close(self) -> None:
        """End all requests with EngineClosed and join the thread; closing twice is harmless."""
        with contextlib.suppress(EngineClosed):
            self._send(self._stop)
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _send(self, command: Callable[[], None]) -> None:
        with self._lock:
            if self._closed is not None:
                raise _copy(self._closed)
            self._commands.put(command)

    def _stop(self) -> None:
        self._closing = True

    def _run(self) -> None:
        reason = EngineClosed("the engine is closed")
        try:
            self._prepare_thread()
            self._loop()
        except BaseException as error:
            reason = EngineClosed(f"the engine's worker died: {type(error).__name__}: {error}")
            reason.__cause__ = error
        self._shut(reason)
        with contextlib.suppress(Exception):  # what waits to be written is lost, the engine is closed all the same
            while self._scheduler.run_idle():
                pass

    def _loop(self) -> None:
        while not self._closing:
            idle = not self._scheduler.has_work and self._commands.empty() and not self._scheduler.run_idle()
            self._drain(block=idle)
            if not self._closing and self._scheduler.has_work:
                self._scheduler.run_once()

    def _drain(self, *, block: bool) -> None:
        with contextlib.suppress(Empty):
            self._commands.get(block=block)()
            while True:
                self._commands.get_nowait()()

    def _shut(self, reason: EngineClosed) -> None:
        """Refuse what comes, run the commands that came before so that their requests are known, fail all."""
        with self._lock:
            self._closed = reason
        while not self._commands.empty():
            with contextlib.suppress(Exception):  # a broken scheduler must not leave a caller waiting
                self._commands.get_nowait()()
        self._scheduler.fail_all(lambda: _copy(reason))


def _copy(error: EngineClosed) -> EngineClosed:
    """Each caller raises an instance of its own: a traceback belongs to one."""
    copied = EngineClosed(*error.args)
    copied.__cause__ = error.__cause__
    return copied
