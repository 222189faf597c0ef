"""`python -m benchmarks.recall [--quick] [--part PART] [--model NAME]`: the recall models in parts."""

from __future__ import annotations

import argparse

from benchmarks.harness import Context
from benchmarks.recall import report
from benchmarks.recall.models import MODELS


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.recall", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a few steps into a temporary folder")
    parser.add_argument("--part", choices=("train", "evaluate"), help="that part alone")
    parser.add_argument("--model", choices=tuple(MODELS), help="that model alone; only for --part train")
    given = parser.parse_args()
    parts = (given.part,) if given.part else ("train", "evaluate")
    models = (given.model,) if given.model and given.part == "train" else tuple(MODELS)
    report.run(Context(name="recall", data=None, quick=given.quick), parts=parts, models=models)


if __name__ == "__main__":
    main()
