"""Torch's OpenMP threads follow the cores that are free: set before a step, in the thread that computes it."""

from __future__ import annotations

from collections.abc import Callable

import torch
from typing_extensions import ParamSpec, TypeVar

from agentform.runtime.free_cores import FreeCores

__all__ = ["on_free_cores"]

P = ParamSpec("P")
R = TypeVar("R")


def on_free_cores(compute: Callable[P, R], cores: FreeCores | None = None) -> Callable[P, R]:
    """`compute`, with as many threads as there are free cores each time; always called in the same thread."""
    free = cores or FreeCores()

    def computed(*args: P.args, **kwargs: P.kwargs) -> R:
        if torch.get_num_threads() != free.num:
            torch.set_num_threads(free.num)
        return compute(*args, **kwargs)

    return computed
