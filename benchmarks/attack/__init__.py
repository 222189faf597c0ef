"""Attacks on a real server process, with a cap on its memory and a watch on `/health`: a row for each."""

from __future__ import annotations

import argparse

from benchmarks.common.harness import Context

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What is attacked, and with how much."""
    parser.add_argument("--model", default="smollm2-135m", help="what the server serves")
    parser.add_argument("--bodies", type=int, default=1000, help="random bodies")
    parser.add_argument("--only", default="", help="only attacks whose name holds this")


def run(context: Context) -> None:
    """Start a server, attack it, print and write what became of it."""
    from benchmarks.attack.report import report

    options = context.options
    bodies = 50 if context.quick else options["bodies"]
    report(context, options["model"], num_bodies=bodies, only=options["only"])
