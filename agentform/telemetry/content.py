"""Messages, calls and tools in the JSON layout of the GenAI conventions, for those who ask for content."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

from agentform.agent.observer import Done
from agentform.messages import JsonValue, Message, ToolCall
from agentform.telemetry.names import finish_reason

__all__ = ["input_messages", "output_messages", "tool_definitions"]


def input_messages(messages: Sequence[Message]) -> str:
    """A conversation: texts, calls and their results."""
    return _json([{"role": message.role, "parts": _parts(message)} for message in messages])


def output_messages(done: Done) -> str:
    """What a turn or run said and called."""
    calls = done.tool_calls or ()
    parts = [*_text(done.content), *map(_call, calls)]
    reason = finish_reason(done.finish or "", calls=bool(done.calls))
    return _json([{"role": "assistant", "parts": parts, "finish_reason": reason}])


def tool_definitions(tools: Sequence[Mapping[str, JsonValue]]) -> str:
    """The tools that were offered; `tools` are in OpenAI's layout."""
    return _json([{"type": "function", **cast("dict[str, Any]", tool["function"])} for tool in tools])


def _parts(message: Message) -> list[dict[str, Any]]:
    if message.result is not None:
        result = message.result
        return [{"type": "tool_call_response", "id": result.call_id, "response": result.content}]
    return [*_text(message.content), *map(_call, message.calls)]


def _text(content: str | None) -> list[dict[str, Any]]:
    return [{"type": "text", "content": content}] if content else []


def _call(call: ToolCall) -> dict[str, Any]:
    return {"type": "tool_call", "id": call.id, "name": call.name, "arguments": dict(call.arguments)}


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
