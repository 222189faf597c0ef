"""Threads of numeric libraries that wait for work: asleep, not awake.

A helper thread of OpenMP spins while it waits, for milliseconds, and on a machine that others use too it takes their
cores, and its own siblings', to do nothing. A short spin covers the gaps inside one step of a model; what is longer is
slept through. Libraries read these variables when they are loaded, so they are set before the first of them.
"""

from __future__ import annotations

import os
from collections.abc import MutableMapping

__all__ = ["let_idle_threads_sleep"]

_OF_USERS = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")
_SPINS = "10000"
"""Of GNU's OpenMP, some tens of microseconds: about the time between two operations of a step."""


def let_idle_threads_sleep(environment: MutableMapping[str, str] | None = None) -> None:
    """Have OpenMP's threads wait passively, unless the environment says how they wait; libraries loaded before stay."""
    variables = os.environ if environment is None else environment
    if not any(variables.get(name) for name in _OF_USERS):
        variables["OMP_WAIT_POLICY"] = "passive"
        variables["GOMP_SPINCOUNT"] = _SPINS
