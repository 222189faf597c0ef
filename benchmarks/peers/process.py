"""One peer in a process of its own, stopped while others are measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.common.processes import Child
from benchmarks.peers.task import Model, Task, Written

__all__ = ["Process"]


class Process(Child):
    """A child that runs `benchmarks.peers.child`.

    Between requests it is stopped: an idle server that polls, or threads that spin, would take time from whoever is
    measured meanwhile.
    """

    def __init__(self, python: Path, driver: str, log: Path, *, command: list[str] | None = None) -> None:
        """Start it; `command` replaces what is run, for tests."""
        super().__init__(command or [str(python), "-m", "benchmarks.peers.child", driver], log, stops=True)

    def load(self, model: Model, *, limit_s: float = 600) -> dict[str, Any]:
        """Load the weights; what the peer was set to.

        Raises:
            ChildFailed: it could not, or not in time.
        """
        return self.ask({"op": "load", "model": vars(model)}, limit_s=limit_s)

    def run(self, task: Task, *, limit_s: float = 300) -> Written:
        """Do one task.

        Raises:
            ChildFailed: it could not, or not in time.
        """
        return Written(**self.ask({"op": "run", "task": task.as_json()}, limit_s=limit_s))
