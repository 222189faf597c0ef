"""Moved: see `agentform.reports`."""

from __future__ import annotations

from agentform._util.moved import moved

__all__: list[str] = []

__getattr__ = moved(
    __name__,
    {
        "show_hints": "agentform.reports:show_hints",
        "show_plan": "agentform.reports:show_plan",
    },
)
