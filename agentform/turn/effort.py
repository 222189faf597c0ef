"""How much a model may say before it acts, by the words that APIs have for it."""

from __future__ import annotations

from typing import Literal, TypeAlias

__all__ = ["TEXT_TOKENS", "THOUGHT_TOKENS", "ReasoningEffort"]

ReasoningEffort: TypeAlias = Literal["none", "minimal", "low", "medium", "high", "xhigh"]

TEXT_TOKENS: dict[str, int] = {"none": 0, "minimal": 16, "low": 64, "medium": 256, "high": 1024, "xhigh": 4096}
"""Free text before the decision to call, by the effort that is asked for."""
THOUGHT_TOKENS: dict[str, int] = {
    "none": 0,
    "minimal": 128,
    "low": 512,
    "medium": 2048,
    "high": 8192,
    "xhigh": 16384,
}
"""A thought between a model's own marks, by the same."""
