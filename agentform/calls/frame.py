"""Moved: see `agentform.engines`."""

from __future__ import annotations

from agentform._util.moved import moved

__all__: list[str] = []

__getattr__ = moved(
    __name__,
    {
        "learn_frame": "agentform.engines:learn_format",
    },
)
