"""`python -m benchmarks.peers.child DRIVER`: serves one peer over JSON lines on standard input and output.

Imported in every peer's environment: the standard library only.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import os
import sys
import traceback
from collections.abc import Callable
from dataclasses import asdict
from typing import IO, Any

from benchmarks.peers.memory import peak_bytes
from benchmarks.peers.task import Driver, Model, Task

__all__ = ["serve"]


def serve(driver: Driver, requests: IO[str], answers: IO[str]) -> None:
    """Answer every line until `quit` or the end; an error is an answer too."""
    operations: dict[str, Callable[[dict[str, Any]], Any]] = {
        "load": lambda asked: driver.load(Model(**asked["model"])) or dict(driver.settings),
        "run": lambda asked: asdict(driver.run(Task(**asked["task"]))),
        "prompt_ids": lambda asked: driver.prompt_ids(Task(**asked["task"])),
        "versions": lambda asked: _versions(asked["packages"]),
        "memory": lambda asked: peak_bytes(os.getpid()),
        "quit": lambda asked: driver.close(),
    }
    for line in requests:
        asked = json.loads(line)
        try:
            answer = {"value": operations[asked["op"]](asked)}
        except Exception as error:  # whatever a peer raises becomes a row of the table
            traceback.print_exc()
            answer = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
        if asked["op"] == "quit":
            return


def _versions(packages: list[str]) -> dict[str, str]:
    return {name: importlib.metadata.version(name) for name in packages}


def _main() -> None:
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a peer prints goes to the log
    driver = importlib.import_module(f"benchmarks.peers.drivers.{sys.argv[1]}").make()
    serve(driver, sys.stdin, answers)
    answers.close()
    os._exit(0)  # a peer's threads and children do not hold the process


if __name__ == "__main__":
    _main()
