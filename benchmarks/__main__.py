"""`python -m benchmarks NAME [--data DIR] [--quick]`: runs one benchmark and writes results/NAME.json."""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path

from agentform.errors import AgentformError
from benchmarks.harness import Context

__all__ = ["main"]


def main() -> None:
    """Parse the command line and run the benchmark."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("name", choices=_names(), help="the benchmark")
    parser.add_argument("--data", type=Path, metavar="DIR", help="folder with data sets that are not shipped")
    parser.add_argument("--quick", action="store_true", help="a sample, in a minute or two; writes no result file")
    named = [word for word in sys.argv[1:] if word in _names()][:1]  # before parsing, so that --help knows all options
    benchmark = importlib.import_module(f"benchmarks.{named[0]}") if named else None
    if hasattr(benchmark, "add_arguments"):
        benchmark.add_arguments(parser)
    given = parser.parse_args()
    if given.data is not None and not given.data.is_dir():
        parser.error(f"--data: {given.data} is not a folder")
    context = Context(name=given.name, data=given.data, quick=given.quick, options=vars(given))
    try:
        importlib.import_module(f"benchmarks.{given.name}").run(context)
    except AgentformError as error:
        parser.exit(1, f"{error}\n")


def _names() -> list[str]:
    """Modules and packages of this folder that have a `run`."""
    here = Path(__file__).parent
    modules = [item.stem for item in here.glob("*.py") if not item.stem.startswith("_") and item.stem != "harness"]
    return sorted(modules + [item.parent.name for item in here.glob("*/__init__.py")])


if __name__ == "__main__":
    main()
