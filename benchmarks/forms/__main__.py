"""`python -m benchmarks.forms [--data DIR] [--part NAME]... [--quick]`: one or more parts of the benchmark."""

from __future__ import annotations

import argparse
from pathlib import Path

from agentform.errors import AgentformError
from benchmarks.forms.parts import PARTS, run
from benchmarks.harness import Context

__all__ = ["main"]


def main() -> None:
    """Parse the command line and run the parts."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.forms", description=__doc__)
    parser.add_argument("--part", action="append", choices=list(PARTS), default=[], help="one part; may be repeated")
    parser.add_argument("--data", type=Path, metavar="DIR", help="folder with data sets that are not shipped")
    parser.add_argument("--quick", action="store_true", help="a small sample; writes no result file")
    given = parser.parse_args()
    try:
        run(Context(name="forms", data=given.data, quick=given.quick), given.part)
    except AgentformError as error:
        parser.exit(1, f"{error}\n")


if __name__ == "__main__":
    main()
