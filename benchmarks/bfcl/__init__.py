"""Berkeley's function calling tests by their own data and checker, against agentform and llama.cpp's own server."""

from __future__ import annotations

import argparse

from benchmarks.common.harness import Context

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What this benchmark takes beside what all do."""
    parser.add_argument("--model", default="qwen2.5-coder-0.5b", help="of the catalogue, with a GGUF file")
    parser.add_argument("--items", type=int, default=20, help="of each category, drawn at random, always the same")
    parser.add_argument("--threads", type=int, default=1, help="of both servers")
    parser.add_argument("--only", nargs="+", metavar="CATEGORY", help="some of the categories")


def run(context: Context) -> None:
    """Ask, score, report and write. What was answered is kept, so that an interrupted run goes on."""
    from benchmarks.bfcl import report

    report.run(context)
