"""Where agentform keeps what it fetches and derives: one folder per user."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

__all__ = ["cache_home", "downloads_folder", "models_folder"]


def cache_home(environment: Mapping[str, str] | None = None) -> Path:
    """The cache folder: `AGENTFORM_HOME`, else `XDG_CACHE_HOME/agentform`, else `~/.cache/agentform`.

    The folder is not created. An empty variable counts as unset.
    """
    variables = os.environ if environment is None else environment
    if home := variables.get("AGENTFORM_HOME"):
        return Path(home).expanduser()
    if cache := variables.get("XDG_CACHE_HOME"):
        return Path(cache).expanduser() / "agentform"
    return Path.home() / ".cache" / "agentform"


def models_folder(home: Path | None = None) -> Path:
    """Where converted models lie, one folder per catalogue name."""
    return (cache_home() if home is None else home) / "models"


def downloads_folder(home: Path | None = None) -> Path:
    """Where a user without network access puts wheels by hand."""
    return (cache_home() if home is None else home) / "downloads"
