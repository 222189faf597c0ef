"""Moved: see `agentform.schema`."""

from __future__ import annotations

from agentform._util.moved import moved

__all__: list[str] = []

__getattr__ = moved(
    __name__,
    {
        "Target": "agentform.schema:Target",
        "load": "agentform.schema:load_target",
    },
)
