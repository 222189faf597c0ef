"""What an MCP server says of a tool or answers to a call, whichever release of the `mcp` package has read it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from agentform.errors import ToolError
from agentform.messages import JsonValue
from agentform.schema.json_text import dumps

__all__ = ["as_json", "returned", "runs_twice"]


def as_json(said: Any) -> Any:
    """A model of the package as the JSON that went over the wire; anything else as it is."""
    dump = getattr(said, "model_dump", None)
    return dump(by_alias=True, mode="json", exclude_none=True) if callable(dump) else said


def returned(name: str, result: Any) -> JsonValue:
    """What the tool returned: its structured content if there is some, else its text.

    Raises:
        ToolError: the server says that the tool failed, with what it says of it.
    """
    said: Mapping[str, Any] = as_json(result)
    text = "\n".join(_text(block) for block in cast("Sequence[Mapping[str, Any]]", said.get("content") or ()))
    if said.get("isError"):
        raise ToolError(f"{name!r} failed: {text or 'the server does not say why'}")
    structured = said.get("structuredContent")
    return text if structured is None else _unwrapped(structured, text)


def _unwrapped(structured: Any, text: str) -> JsonValue:
    """The value that a server has put below `result` because structured content has to be an object."""
    if isinstance(structured, dict) and list(cast("dict[str, Any]", structured)) == ["result"]:
        value: JsonValue = structured["result"]
        if text in (value, dumps(value)):
            return value
    return cast("JsonValue", structured)


def runs_twice(said: Any) -> bool:
    """Whether the server says that calling the tool once more does no harm."""
    hints = said.get("annotations") if isinstance(said, Mapping) else None
    return isinstance(hints, Mapping) and bool(hints.get("readOnlyHint") or hints.get("idempotentHint"))


def _text(block: Mapping[str, Any]) -> str:
    kind = block.get("type")
    if kind == "text":
        return str(block.get("text", ""))
    if kind == "resource" and "text" in (resource := block.get("resource") or {}):
        return str(resource["text"])
    if kind == "resource_link":
        return dumps({key: block[key] for key in ("uri", "name", "description") if key in block})
    data = str(block.get("data") or (block.get("resource") or {}).get("blob") or "")
    return f"[{kind}: {block.get('mimeType', 'no type said')}, {len(data) * 3 // 4:,} bytes]"
