"""Recorded sessions through the real cache classes: token hit rate against budget, for several ways to run a cache."""

from __future__ import annotations

from benchmarks.common.harness import Context

__all__ = ["run"]


def run(context: Context) -> None:
    """Replay, report and write; needs `traces/` in the folder given with `--data`."""
    from benchmarks.cache.traces import report

    report.run(context)
