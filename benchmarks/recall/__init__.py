"""Two small models that remember: trained here on a CPU, committed with their seed, curve and horizons.

python -m benchmarks recall [--quick]                     # trains both (minutes), then measures them
python -m benchmarks.recall --part evaluate               # measures the committed weights
"""

from __future__ import annotations

from benchmarks.harness import Context

__all__ = ["run"]


def run(context: Context) -> None:
    """Train, measure, report and write; a quick run trains a few steps into a temporary folder."""
    from benchmarks.recall import report

    report.run(context, parts=("train", "evaluate"))
