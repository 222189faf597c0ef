"""Whether what was written parses as strict JSON and satisfies the schema that was asked for."""

from __future__ import annotations

from typing import Any

from jsonschema import Draft202012Validator

from agentform.errors import AgentformError
from agentform.schema.json_text import loads

__all__ = ["is_valid", "parsed"]


def parsed(text: str) -> Any:
    """The value of strict JSON text; None when it is none, which no schema here accepts."""
    try:
        return loads(text)
    except (AgentformError, ValueError):
        return None


def is_valid(text: str, schema: dict[str, Any]) -> bool:
    """Parses and validates, formats included."""
    checker = Draft202012Validator.FORMAT_CHECKER
    return Draft202012Validator(schema, format_checker=checker).is_valid(parsed(text))
