from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import pytest

import agentform

_BLOCKING = ("sqlite3.connect", "socket.connect", "socket.getaddrinfo", "subprocess.Popen", "open")
_PACKAGE = str(Path(agentform.__file__).parent)
_watching: list[list[str]] = []


def _hook(event: str, arguments: tuple[object, ...]) -> None:
    if not _watching or event not in _BLOCKING or not _in_event_loop():
        return
    places = list(_stack())  # not by the module traceback, which opens files itself
    # Modules that are imported late are read from disk; so are sources for the lines of a traceback.
    if not any("importlib" in place or "linecache" in place for place in places):
        _watching[-1].append("\n  ".join([f"{event} {arguments!r}", *places[:8]]))


def _stack() -> Iterator[str]:
    frame = sys._getframe(2)
    while frame is not None:
        yield f"{frame.f_code.co_filename}:{frame.f_lineno}"
        frame = frame.f_back


def _in_event_loop() -> bool:
    try:
        anyio.get_current_task()
    except RuntimeError:
        return False
    return True


sys.addaudithook(_hook)  # for good: there is no way to take one back


@contextmanager
def blocking_calls() -> Iterator[list[str]]:
    """Calls that block the thread in which an event loop runs, as they are made."""
    seen: list[str] = []
    _watching.append(seen)
    sleep = time.sleep

    def watched(seconds: float) -> None:
        if _in_event_loop() and _watching[-1] is seen:
            seen.append("\n  ".join(["time.sleep", *list(_stack())[:8]]))
        sleep(seconds)

    time.sleep = watched  # Python tells its audit hooks of it from 3.13 on only
    try:
        yield seen
    finally:
        time.sleep = sleep
        _watching.remove(seen)


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request):
    return request.param


@pytest.fixture(autouse=True)
def _no_blocking_calls():
    """Nothing that agentform does in a test of agents may block the event loop; what the test itself does may."""
    with blocking_calls() as seen:
        yield
    ours = [call for call in seen if _PACKAGE in call]
    assert not ours, "the event loop was blocked by\n" + "\n".join(ours)


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory) -> Path:
    """A random model that reads long prompts; what it says means nothing."""
    from tests.support.tiny_model import write_tiny_model

    folder = tmp_path_factory.mktemp("tiny")
    write_tiny_model(folder, max_position_embeddings=4096)
    return folder
