"""agentform and what users would pick instead: the same weights, prompts and schemas, on one machine in one run.

The package's children run in environments that hold nothing of agentform, so importing it imports nothing.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks.common.harness import Context

__all__ = ["add_arguments", "run"]


def run(context: Context) -> None:
    """Measure and report."""
    from benchmarks.peers.benchmark import run as run_peers

    run_peers(context)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """This benchmark's own options."""
    from benchmarks.peers.options import add_arguments as add

    add(parser)
