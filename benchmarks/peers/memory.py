"""The most memory that a process and its descendants have held, as Linux counts it.

Imported in every peer's environment: the standard library only.
"""

from __future__ import annotations

from pathlib import Path

__all__ = ["descendants", "peak_bytes"]

_PROCESSES = Path("/proc")


def peak_bytes(pid: int) -> int | None:
    """Sum of the peaks of resident memory (VmHWM) of a process and all below it; None where there is no /proc.

    Pages that several of them share, such as a mapped file, count for each.
    """
    peaks = [_peak(number) for number in (pid, *descendants(pid))]
    known = [peak for peak in peaks if peak is not None]
    return sum(known) if known else None


def descendants(pid: int) -> list[int]:
    """Process ids below `pid`."""
    below: list[int] = []
    for file in _PROCESSES.glob(f"{pid}/task/*/children"):
        try:
            children = [int(word) for word in file.read_text().split()]
        except OSError:  # it has just ended
            continue
        for child in children:
            below += [child, *descendants(child)]
    return below


def _peak(pid: int) -> int | None:
    try:
        lines = (_PROCESSES / str(pid) / "status").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")), None)
