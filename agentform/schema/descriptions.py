"""Short words for people and models: one-line descriptions, and why a leaf is free."""

from __future__ import annotations

import re
from typing import Any

from agentform.json_schema.keywords import SchemaDict

__all__ = ["WRITTEN_AS", "one_line", "say_free"]

WRITTEN_AS = "x-written-as"
"""The extension keyword beside a pattern that stands for a format."""


def one_line(text: Any) -> str:
    """The first paragraph of a description, its whitespace collapsed; anything but text is no description."""
    if not isinstance(text, str):
        return ""
    return " ".join(re.split(r"\n\s*\n", text.strip(), maxsplit=1)[0].split())


def say_free(schema: SchemaDict) -> str:
    """One clause on why a schema without listed values is free, such as `array of string`."""
    match schema.get("type"):
        case "string":
            return _say_string(schema)
        case "array":
            return f"array of {_say_items(schema)}"
        case "object":
            return "open map"
        case "integer" | "number" as kind:
            return kind + _say_bounds(schema)
        case _:
            return "any"


def _say_string(schema: SchemaDict) -> str:
    if WRITTEN_AS in schema:
        return f"format {schema[WRITTEN_AS]}"
    if "pattern" in schema:
        return "pattern"
    return f"format {schema['format']}" if "format" in schema else "string"


def _say_items(schema: SchemaDict) -> str:
    if "prefixItems" in schema:
        return f"{len(schema['prefixItems'])} in order"
    items = schema.get("items", True)
    if not isinstance(items, dict) or not items:
        return "any"
    if isinstance(ref := items.get("$ref"), str):
        return ref.rpartition("/")[2] or "itself"
    if "enum" in items:
        return "enum"
    kind = items.get("type")
    return kind if isinstance(kind, str) else "any"


def _say_bounds(schema: SchemaDict) -> str:
    low = schema.get("minimum", schema.get("exclusiveMinimum"))
    high = schema.get("maximum", schema.get("exclusiveMaximum"))
    if low is None and high is None:
        return ""
    return f" range {'' if low is None else low}..{'' if high is None else high}"
