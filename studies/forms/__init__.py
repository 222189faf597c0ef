"""Choosing against writing: accuracy, time, contradictions, bias, and what goes wrong when it is built wrong."""

from __future__ import annotations

import argparse

from benchmarks.common.parts import add_parts
from studies.forms.parts import PARTS, run

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """`--part`."""
    add_parts(parser, "--part", PARTS)
