"""What `python -m benchmarks peers` takes beside what all benchmarks take."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

from agentform.runtime.models.catalogue import CATALOGUE
from benchmarks.peers.roster import OURS, read_roster

__all__ = ["WORKS", "add_arguments", "modules"]

WORKS = {
    "a": "closed",
    "b": "calls",
    "c": "conversation",
    "d": "decode",
    "e": "prefill",
    "f": "start",
    "g": "start",
    "i": "speed",
}
"""Letters of the command line and the modules of `works`; validity (h) comes with a and b."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """`--only`, `--work`, `--model`, `--engine`, `--threads`, `--rounds`, `--peers-dir`."""
    peers = [name for name in read_roster() if name != OURS]
    parser.add_argument("--only", nargs="+", choices=peers, metavar="PEER", help=f"some of: {', '.join(peers)}")
    parser.add_argument("--work", type=_works, default=list(WORKS), metavar="a,b,…", help=f"some of: {WORKS}")
    parser.add_argument("--model", choices=list(CATALOGUE), default="smollm2-135m", help="what all run")
    parser.add_argument("--engine", choices=("torch", "llama_cpp"), help="what agentform runs it on")
    parser.add_argument("--threads", type=int, default=min(2, os.cpu_count() or 1), help="of every peer (at most 2)")
    parser.add_argument("--rounds", type=_count, help="of works a, d, e, f and g: so many of the shorter kind")
    parser.add_argument("--peers-dir", type=Path, help="where the peers' environments are")


def _works(given: str) -> list[str]:
    letters = [letter for letter in given.replace(",", "") if letter != " "]
    if unknown := [letter for letter in letters if letter not in WORKS]:
        raise argparse.ArgumentTypeError(f"no work {', '.join(unknown)}: there are {', '.join(WORKS)}")
    return letters


def _count(given: str) -> int:
    if not given.isdigit() or not int(given):
        raise argparse.ArgumentTypeError(f"{given} is no number of rounds")
    return int(given)


def modules(letters: Sequence[str]) -> list[str]:
    """The modules of these works, each once, in their order."""
    return list(dict.fromkeys(module for letter, module in WORKS.items() if letter in letters))
