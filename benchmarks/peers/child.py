"""`python -m benchmarks.peers.child DRIVER`: serves one peer over JSON lines on standard input and output.

Imported in every peer's environment: the standard library only.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import sys
from dataclasses import asdict, replace

from benchmarks.common.processes import Operations, cpu_seconds, peak_bytes, serve_pipes
from benchmarks.peers.task import Driver, Model, Task, Written

__all__ = ["operations_of"]


def operations_of(driver: Driver) -> Operations:
    """What a peer can be asked."""
    return {
        "load": lambda asked: driver.load(Model(**asked["model"])) or dict(driver.settings),
        "run": lambda asked: asdict(_run(driver, Task(**asked["task"]))),
        "prompt_ids": lambda asked: driver.prompt_ids(Task(**asked["task"])),
        "versions": lambda asked: {name: importlib.metadata.version(name) for name in asked["packages"]},
        "memory": lambda asked: peak_bytes(os.getpid()),
        "quit": lambda asked: driver.close(),
    }


def _run(driver: Driver, task: Task) -> Written:
    before = cpu_seconds()
    written = driver.run(task)
    return replace(written, cpu_s=cpu_seconds() - before)


if __name__ == "__main__":
    serve_pipes(operations_of(importlib.import_module(f"benchmarks.peers.drivers.{sys.argv[1]}").make()))
