"""Which features of which clients work with the server: real packages, each in an environment of its own."""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks.common.harness import Context

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Where the environments are, and which clients run."""
    parser.add_argument(
        "--environments",
        type=Path,
        default=Path("benchmarks/.clients"),
        help="folder of the clients' environments; what is missing is made with pip",
    )
    parser.add_argument("--only", default="", help="only clients whose name holds this")


def run(context: Context) -> None:
    """Drive the clients, print the table and write it; with --quick only environments that are there."""
    from benchmarks.clients.report import report

    options = context.options
    report(context, options["environments"], only=options["only"])
