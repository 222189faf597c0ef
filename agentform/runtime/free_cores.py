"""How many threads a step computes with: the physical cores that nobody else keeps busy.

The threads of llama.cpp, and torch's OpenMP pools, wait for each other by spinning. On a core that another process
uses, each of them waits for that process many times a step, so one thread fewer is faster there than one more.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

__all__ = ["FreeCores", "physical_cores"]

_LEAST_INTERVAL_S = 1.0
_TOPOLOGY = Path("/sys/devices/system/cpu")
_PROC_STAT = Path("/proc/stat")
_HALF = 0.5


@dataclass(frozen=True, kw_only=True)
class _Sample:
    at: float
    all_busy_s: float
    own_busy_s: float


class FreeCores:
    """Looked at before each step; the machine is asked once a second at most."""

    def __init__(
        self,
        most: int | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        all_busy_s: Callable[[], float | None] = lambda: _machine_busy_s(),
        own_busy_s: Callable[[], float] = time.process_time,
    ) -> None:
        """`most`: by default the physical cores that this process may use."""
        self.most = most or physical_cores()
        self._clock, self._all_busy_s, self._own_busy_s = clock, all_busy_s, own_busy_s
        self._last = self._sample()
        self._num = max(1, min(self.most, self.most - round(_load())))

    @property
    def num(self) -> int:
        """Cores to use now."""
        now = self._clock()
        if self._last is not None and now - self._last.at >= _LEAST_INTERVAL_S:
            self._look()
        return self._num

    def _look(self) -> None:
        before, after = self._last, self._sample()
        self._last = after
        if before is None or after is None:
            return
        elapsed = after.at - before.at
        others = (after.all_busy_s - before.all_busy_s - (after.own_busy_s - before.own_busy_s)) / elapsed
        self._num = max(1, self.most - int(others + _HALF))

    def _sample(self) -> _Sample | None:
        busy = self._all_busy_s()
        return None if busy is None else _Sample(at=self._clock(), all_busy_s=busy, own_busy_s=self._own_busy_s())


def physical_cores() -> int:
    """Cores that this process may use, each counted once however many threads it runs at a time.

    OMP_NUM_THREADS bounds them, as it bounds other libraries.
    """
    allowed = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))
    cores = {_siblings(cpu) for cpu in allowed}
    asked = os.environ.get("OMP_NUM_THREADS", "")
    return max(1, min(len(cores), int(asked) if asked.isdigit() and int(asked) else len(cores)))


def _siblings(cpu: int) -> str:
    try:
        return (_TOPOLOGY / f"cpu{cpu}" / "topology" / "thread_siblings_list").read_text().strip()
    except OSError:  # not told on this platform
        return str(cpu)


def _machine_busy_s() -> float | None:
    """Processor seconds that all processes used since the machine started; `None` where the system does not tell."""
    try:
        first = _PROC_STAT.read_text().split("\n", 1)[0].split()
    except OSError:
        return None
    user, nice, system, _, _, irq, softirq, *_ = map(int, first[1:])
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


def _load() -> float:
    """Processes that wanted to run in the last minute."""
    try:
        return os.getloadavg()[0]
    except (AttributeError, OSError):
        return 0.0
