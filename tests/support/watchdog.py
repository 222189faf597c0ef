"""Ends a program that does not end by itself, and says what it was doing."""

from __future__ import annotations

import faulthandler

__all__ = ["EXIT_S", "end_after"]

EXIT_S = 120.0
"""How long a run of tests may take to end after its last test."""
_STDERR = 2


def end_after(seconds: float) -> None:
    """If the program still runs after that time: print the stacks of all its threads, and end it with status 1."""
    faulthandler.dump_traceback_later(seconds, exit=True, file=_STDERR)
