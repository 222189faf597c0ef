"""Functions on their way to another process: by the module and name under which they are found again."""

from __future__ import annotations

import functools
import importlib
import inspect
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

__all__ = ["FoundFunction", "found_function"]


@dataclass(frozen=True)
class FoundFunction:
    """Where a function is defined."""

    module: str
    qualname: str

    def load(self) -> Callable[..., Any]:
        """The function of that name, also where the name stands for the tool that was made of it."""
        found: Any = functools.reduce(getattr, self.qualname.split("."), importlib.import_module(self.module))
        return getattr(found, "fn", found)


def found_function(tool: str, fn: Callable[..., Any]) -> FoundFunction:
    """Where the function of a tool is found again.

    Raises:
        pickle.PicklingError: it is no function that another process finds by its name.
    """
    if inspect.isfunction(fn):
        where = FoundFunction(fn.__module__, fn.__qualname__)
        if _leads_to(where, fn):
            return where
    raise pickle.PicklingError(
        f"tool {tool!r} cannot be pickled: {getattr(fn, '__qualname__', fn)!r} is no function that another "
        "process finds by its module and name; define it at the top of a module"
    )


def _leads_to(where: FoundFunction, fn: Callable[..., Any]) -> bool:
    try:
        return where.load() is fn
    except (ImportError, AttributeError):
        return False
