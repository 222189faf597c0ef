"""What compressed snapshots save and what they cost, on two small trained models and with the product's own codec."""

from __future__ import annotations

import argparse

from benchmarks.common.parts import add_parts
from studies.recall.models import MODELS
from studies.snapshots.parts import PARTS, run

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """`--part` and `--model`."""
    add_parts(parser, "--part", PARTS)
    add_parts(parser, "--model", MODELS)
