"""`python -m benchmarks.snapshots [--part NAME]... [--quick]`: one or more parts of the benchmark."""

from __future__ import annotations

import argparse

from benchmarks.harness import Context
from benchmarks.recall.models import MODELS
from benchmarks.snapshots.parts import PARTS, run


def main() -> None:
    """Parse the command line and run the parts."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.snapshots", description=__doc__)
    parser.add_argument("--part", action="append", choices=list(PARTS), default=[], help="one part; may be repeated")
    parser.add_argument("--quick", action="store_true", help="a small sample; writes no result file")
    parser.add_argument("--model", action="append", choices=list(MODELS), default=[], help="one model; may be repeated")
    given = parser.parse_args()
    run(Context(name="snapshots", data=None, quick=given.quick), given.part, given.model or tuple(MODELS))


if __name__ == "__main__":
    main()
