"""What a message calls for, and whether what was called is that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agentform.messages import ToolCall

__all__ = ["Expected", "is_right"]


@dataclass(frozen=True, kw_only=True)
class Expected:
    """What a message calls for; no tool means an answer in words."""

    tool: str | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Of the arguments those that the message tells; one with several values is right with any of them."""


def is_right(expected: Expected, calls: Sequence[ToolCall]) -> tuple[bool, bool]:
    """Whether the tool is right, and whether all that is judged of the arguments is too; of several calls the first."""
    if expected.tool is None or not calls:
        return (not calls and expected.tool is None,) * 2
    right = calls[0].name == expected.tool
    arguments = calls[0].arguments
    return right, right and all(_fits(arguments.get(key), value) for key, value in expected.arguments.items())


def _fits(found: Any, expected: Any) -> bool:
    return found in expected if isinstance(expected, tuple) else found == expected
