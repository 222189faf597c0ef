"""Choosing against writing: accuracy, time, contradictions, bias, and what goes wrong when it is built wrong."""

from __future__ import annotations

from benchmarks.forms.parts import run

__all__ = ["run"]
