"""Moved: see `agentform.reports`."""

from __future__ import annotations

from agentform._util.moved import moved

__all__: list[str] = []

__getattr__ = moved(
    __name__,
    {
        "probe_target": "agentform.reports:probe_target",
        "read_texts": "agentform.reports:read_texts",
    },
)
