"""What compressed snapshots save and what they cost, on two small trained models and with the product's own codec."""

from __future__ import annotations

from benchmarks.harness import Context

__all__ = ["run"]


def run(context: Context) -> None:
    """Measure, report and write; parts can be run alone, see `python -m benchmarks.snapshots --help`."""
    from benchmarks.snapshots import parts

    parts.run(context)
