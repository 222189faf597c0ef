"""A past message with the thought that went before it, where its template reads one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["THINKING_PART", "with_thought"]

THINKING_PART = "thinking part"
"""Stands for a part of a message's content that has the type `thinking`."""


def with_thought(key: str | None, message: Mapping[str, Any], thought: str) -> dict[str, Any]:
    """`message` with the thought under `key`; where no key is read, under the most usual one."""
    if key != THINKING_PART:
        return {**message, key or "reasoning_content": thought}
    content = message["content"]
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return {**message, "content": [{"type": "thinking", "thinking": thought}, *parts]}
