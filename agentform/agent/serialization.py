"""Messages as JSON text and back, exactly: what a store keeps is what a conversation held."""

from __future__ import annotations

import json
import struct
from dataclasses import asdict
from typing import Any

from agentform.errors import InvalidInput, StoreCorrupt
from agentform.messages import Alternative, Evidence, Message, ToolCall, ToolResult, Usage
from agentform.schema.json_text import plain

__all__ = ["message_from_json", "message_to_json", "token_ids_from_bytes", "token_ids_to_bytes"]


def message_to_json(message: Message) -> str:
    """One line of ASCII, so that even lone surrogates come back; tuples among arguments become lists.

    Raises:
        InvalidInput: the message holds what is not JSON, such as NaN.
    """
    try:
        return json.dumps(plain(asdict(message)), separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"a message cannot be stored: {error}") from error


def message_from_json(text: str) -> Message:
    """The message that `message_to_json` wrote.

    Raises:
        StoreCorrupt: the text is not one that it writes.
    """
    try:
        return _message(json.loads(text))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise StoreCorrupt(f"not a message: {type(error).__name__}: {error}: {text[:80]!r}") from error


def _message(data: dict[str, Any]) -> Message:
    result = data["result"]
    return Message(
        role=data["role"],
        content=data["content"],
        calls=tuple(map(_call, data["calls"])),
        result=None if result is None else ToolResult(**result),
        reasoning=data.get("reasoning", ""),
    )


def _call(data: dict[str, Any]) -> ToolCall:
    decision = data["decision"]
    given: dict[str, Any] = data | {
        "evidence": tuple(map(_evidence, data["evidence"])),
        "decision": None if decision is None else _evidence(decision),
        "usage": Usage(**data["usage"]),
    }
    return ToolCall(**given)


def _evidence(data: dict[str, Any]) -> Evidence:
    given: dict[str, Any] = data | {"alternatives": tuple(Alternative(**item) for item in data["alternatives"])}
    return Evidence(**given)


def token_ids_to_bytes(ids: tuple[int, ...]) -> bytes:
    """Four bytes each, least significant first."""
    return struct.pack(f"<{len(ids)}I", *ids)


def token_ids_from_bytes(data: bytes) -> tuple[int, ...]:
    """The ids that `token_ids_to_bytes` wrote.

    Raises:
        StoreCorrupt: the length is not a multiple of four.
    """
    if len(data) % 4:
        raise StoreCorrupt(f"{len(data)} bytes are no token ids: each takes four")
    return struct.unpack(f"<{len(data) // 4}I", data)
