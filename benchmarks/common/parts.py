"""Benchmarks of several parts, each of which can be run alone; their figures share one result file."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from typing import Any

from benchmarks.common.harness import Context

__all__ = ["add_parts", "last_figures"]


def add_parts(parser: argparse.ArgumentParser, option: str, names: Iterable[str]) -> None:
    """`--part NAME`, or another option, that may be repeated; all of them without it."""
    own = sorted(names)
    parser.add_argument(option, action="append", choices=own, default=[], help="that one alone; may be repeated")


def last_figures(context: Context) -> dict[str, Any]:
    """The figures that the result file holds: those of parts that are not run now are kept."""
    try:
        return json.loads(context.result_file.read_text(encoding="utf-8"))["figures"]
    except (FileNotFoundError, ValueError, KeyError):
        return {}
