"""A server process under attack: its memory is capped and watched, and its `/health` is asked all the time."""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from benchmarks.attack.health import ask
from benchmarks.common.processes import own_session

__all__ = ["KEYS", "Target", "attacked"]

KEYS = ("the-key-of-one-client", "the-key-of-another-one")
_ADDRESS = re.compile(r"served at http://127\.0\.0\.1:(\d+)/v1")
_START_S = 300.0
_STOP_S = 30.0
_WAIT_S = 600.0
_SAMPLE_S = 0.05


@dataclass(eq=False)
class Target:
    """The process, and what was seen of it since `watch_anew`."""

    process: subprocess.Popen[bytes]
    port: int
    log: Path
    cap_bytes: int
    is_short: bool = False
    """Attacks send a quarter of what they would, for CI."""
    peak_bytes: int = 0
    was_killed: bool = False
    """By the watchdog, for its memory."""
    _model: str = ""
    _since: float = 0.0
    _ended: threading.Event = field(default_factory=threading.Event)

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def is_alive(self) -> bool:
        """Whether the process that was started still runs."""
        return self.process.poll() is None

    def many(self, number: int) -> int:
        """How many of so many are sent."""
        return -(-number // 4) if self.is_short else number

    def rss_bytes(self) -> int:
        """Resident memory now; 0 when it is gone."""
        try:
            pages = Path(f"/proc/{self.process.pid}/statm").read_text(encoding="ascii").split()[1]
        except (OSError, IndexError):
            return 0
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    def post(
        self,
        path: str,
        body: Any = None,
        *,
        content: bytes | None = None,
        key: str = KEYS[0],
        timeout: float = _WAIT_S,
        headers: Mapping[str, str | bytes] | None = None,
    ) -> httpx.Response:
        """Ask, with a JSON body or with `content`, bytes as they are."""
        sent = json.dumps(body).encode() if content is None else content
        with httpx.Client(timeout=timeout, trust_env=False, verify=False) as client:
            return client.post(self.url + path, headers=_headers(key, headers or {}), content=sent)

    def get(self, path: str, *, key: str = KEYS[0], headers: Mapping[str, str | bytes] | None = None) -> httpx.Response:
        """What is there."""
        with httpx.Client(timeout=_WAIT_S, trust_env=False, verify=False) as client:
            return client.get(self.url + path, headers=_headers(key, headers or {}))

    @staticmethod
    def pause() -> None:
        """Before something is tried again."""
        time.sleep(_SAMPLE_S)

    def model(self) -> str:
        """What the server calls its model."""
        if not self._model:
            self._model = str(self.get("/v1/models").json()["data"][0]["id"])
        return self._model

    def watch_anew(self) -> None:
        """Forget what was seen."""
        self.peak_bytes, self._since = self.rss_bytes(), time.time()

    @property
    def health_s(self) -> list[float]:
        """Seconds that each answer of `/health` asked for since took; infinite where there was none."""
        return self.health_since(self._since)

    def health_since(self, when: float) -> list[float]:
        """The same of all that were asked for since then, in seconds since 1970."""
        asked = [line.split() for line in self._answers()]
        return [float(seconds) for start, seconds in asked if float(start) >= when]

    def _answers(self) -> list[str]:
        place = self.log.with_name("health")
        return place.read_text(encoding="ascii").split("\n")[:-1] if place.exists() else []

    def is_healthy(self, within_s: float = 60) -> bool:
        """Whether `/health` says so, at the latest by then."""
        until = time.monotonic() + within_s
        while time.monotonic() < until and self.is_alive:
            if math.isfinite(ask(self.port, patience_s=10)):
                return True
            time.sleep(0.1)
        return False

    def watch_memory(self) -> None:
        """Until the end: end the process where it takes more than it may."""
        while not self._ended.wait(_SAMPLE_S):
            now = self.rss_bytes()
            self.peak_bytes = max(self.peak_bytes, now)
            if now > self.cap_bytes:
                self.was_killed = True
                self.process.kill()

    def end(self) -> None:
        """Stop watching, and tell the process to stop, which it gets some time for."""
        self._ended.set()
        self.process.terminate()  # nothing happens to one that has ended
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(_STOP_S)


def _headers(key: str, others: Mapping[str, str | bytes]) -> list[tuple[bytes, bytes]]:
    given = {"authorization": f"Bearer {key}", "content-type": "application/json", **others}
    return [(name.encode(), value.encode() if isinstance(value, str) else value) for name, value in given.items()]


@contextlib.contextmanager
def attacked(
    model: str,
    folder: Path,
    *,
    cap_bytes: int,
    deadline_s: float = 300,
    is_short: bool = False,
    options: Sequence[str] = (),
) -> Iterator[Target]:
    """Start `agentform serve` with two keys and further `options`; it is ended with the block, whatever happens."""
    keys, log = folder / "keys", folder / "serve.log"
    keys.write_text("\n".join(KEYS) + "\n", encoding="ascii")
    command = [sys.executable, "-m", "agentform", "serve", "--model", model, "--port", "0", "--api-key-file", str(keys)]
    limits = ["--deadline-s", str(deadline_s), "--max-tokens", "8", "--reasoning-tokens", "4", "--grace-s", "2"]
    with log.open("wb") as out, own_session([*command, *limits, *options], out, COLUMNS="200") as process:
        target = Target(process, 0, log, cap_bytes, is_short)
        target.port = _port(target)
        # A process of its own: threads here that attack would be measured too.
        asks = [sys.executable, "-m", "benchmarks.attack.health", str(target.port), str(folder / "health")]
        memory = threading.Thread(target=target.watch_memory, daemon=True)
        with own_session(asks, out):
            memory.start()
            try:
                yield target
            finally:
                target.end()
                memory.join()


def _port(target: Target) -> int:
    until = time.monotonic() + _START_S
    while time.monotonic() < until and target.is_alive:
        if found := _ADDRESS.search(target.log.read_text(encoding="utf-8", errors="replace")):
            return int(found[1])
        time.sleep(0.05)
    raise RuntimeError(f"the server did not start:\n{target.log.read_text(encoding='utf-8', errors='replace')}")
