"""Copying a JSON Schema with its subschemas changed, by where the keyword table says they stand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from agentform.grammar.keywords import KEYWORDS

__all__ = ["Schema", "SchemaDict", "escaped", "map_subschemas"]

SchemaDict: TypeAlias = dict[str, Any]
Schema: TypeAlias = SchemaDict | bool


def map_subschemas(schema: SchemaDict, change: Callable[[Schema, str], Schema]) -> SchemaDict:
    """A copy in which each direct subschema is `change(subschema, its JSON Pointer from here)`."""
    return {keyword: _mapped(keyword, value, change) for keyword, value in schema.items()}


def escaped(key: str) -> str:
    """One step of a JSON Pointer."""
    return key.replace("~", "~0").replace("/", "~1")


def _mapped(keyword: str, value: Any, change: Callable[[Schema, str], Schema]) -> Any:
    row = KEYWORDS.get(keyword)
    if row is None or not row.holds:
        return value
    if row.holds == "map" and isinstance(value, dict):
        return {name: _one(item, f"/{keyword}/{escaped(name)}", change) for name, item in value.items()}
    if isinstance(value, list):  # `items` may list, in drafts before 2020-12
        return [_one(item, f"/{keyword}/{at}", change) for at, item in enumerate(value)]
    return _one(value, f"/{keyword}", change)


def _one(item: Any, at: str, change: Callable[[Schema, str], Schema]) -> Any:
    return change(item, at) if isinstance(item, (dict, bool)) else item
