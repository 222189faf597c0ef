"""Which agentform this is."""

from __future__ import annotations

import importlib.metadata

__all__ = ["own_version"]


def own_version() -> str:
    """The version of the installed package."""
    try:
        return importlib.metadata.version("agentform")
    except importlib.metadata.PackageNotFoundError:
        return "not installed: a folder with its source is on the path"
