"""The command line of a folder of benchmarks: a name, what all take, and what each takes beside."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from agentform.errors import AgentformError
from benchmarks.common.harness import Context

__all__ = ["main"]


def main(prog: str, modules: Mapping[str, str], *, results: Path, argv: Sequence[str] | None = None) -> None:
    """Run one of `modules`, which are given by name; its figures go to `results`.

    A module has `run(context)`, and `add_arguments(parser)` where it takes more than all do.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    parser = argparse.ArgumentParser(prog=prog, description=f"Runs one of {prog.rpartition(' ')[2]}.")
    parser.add_argument("name", choices=sorted(modules), help="what to run; with --help, all that it takes")
    parser.add_argument("--data", type=Path, metavar="DIR", help="folder with data sets that are not shipped")
    parser.add_argument("--quick", action="store_true", help="a sample, in a minute or two; writes no result file")
    named = next((word for word in words if word in modules), None)  # before parsing, so that --help knows all options
    module = importlib.import_module(modules[named]) if named else None
    if module is not None and hasattr(module, "add_arguments"):
        module.add_arguments(parser)
    given = parser.parse_args(words)
    if given.data is not None and not given.data.is_dir():
        parser.error(f"--data: {given.data} is not a folder")
    context = Context(name=given.name, data=given.data, quick=given.quick, options=vars(given), results=results)
    try:
        importlib.import_module(modules[given.name]).run(context)
    except AgentformError as error:
        parser.exit(1, f"{error}\n")
