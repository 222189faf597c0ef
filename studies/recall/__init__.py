"""Two small models that remember: trained here on a CPU, committed with their seed, curve and horizons.

python -m studies recall [--quick]              # trains both (minutes), then measures them
python -m studies recall --part evaluate        # measures the committed weights
"""

from __future__ import annotations

import argparse

from benchmarks.common.harness import Context
from benchmarks.common.parts import add_parts
from studies.recall import report
from studies.recall.models import MODELS

__all__ = ["add_arguments", "run"]

_PARTS = ("train", "evaluate")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """`--part` and `--model`; the latter only for training."""
    add_parts(parser, "--part", _PARTS)
    add_parts(parser, "--model", MODELS)


def run(context: Context) -> None:
    """Train, measure, report and write; a quick run trains a few steps into a temporary folder."""
    parts = context.options.get("part") or _PARTS
    models = context.options.get("model") if list(parts) == ["train"] else None
    report.run(context, parts=parts, models=models or tuple(MODELS))
