"""Names that stay importable for one release from where they were, with a word on where they are now."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["moved"]


def moved(old: str, names: Mapping[str, str]) -> Callable[[str], Any]:
    """A module's `__getattr__`: `names` are those it had, each with where it is now, as ``module:name``.

    `old` is the module's own name. Each use is a DeprecationWarning at the line that imports the name.
    """

    def __getattr__(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {old!r} has no attribute {name!r}")
        module, _, new = names[name].partition(":")
        warnings.warn(
            f"{old}.{name} is {module}.{new} now; the old name goes with the release after 0.2",
            DeprecationWarning,
            stacklevel=2,
        )
        return getattr(importlib.import_module(module), new)

    return __getattr__
