"""Moved: see `agentform.serve`."""

from __future__ import annotations

from agentform._util.moved import moved

__all__: list[str] = []

__getattr__ = moved(__name__, {"Server": "agentform.serve:Server"})
