"""Walking through a JSON Schema by where its keywords hold subschemas."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from agentform.json_schema.keywords import LISTS_SCHEMAS, NAMES_SCHEMAS, TAKES_SCHEMA, SchemaDict
from agentform.json_schema.pointer import Path

__all__ = ["map_subschemas", "subschemas"]


def subschemas(schema: SchemaDict) -> Iterator[tuple[Path, Any]]:
    """The schemas directly inside `schema`, each with its path from there."""
    for keyword, value in schema.items():
        if keyword in NAMES_SCHEMAS and isinstance(value, Mapping):
            yield from (((keyword, name), item) for name, item in value.items() if _is_schema(item))
        elif keyword in LISTS_SCHEMAS and isinstance(value, list):
            yield from (((keyword, str(at)), item) for at, item in enumerate(value) if _is_schema(item))
        elif keyword in TAKES_SCHEMA and _is_schema(value):
            yield (keyword,), value


def map_subschemas(schema: SchemaDict, change: Callable[[Path, Any], Any]) -> SchemaDict:
    """A copy of `schema` in which each direct subschema is what `change(path, subschema)` returns."""
    changed = {path: change(path, item) for path, item in subschemas(schema)}
    return {keyword: _rebuild(keyword, value, changed) for keyword, value in schema.items()}


def _is_schema(value: Any) -> bool:
    return isinstance(value, (dict, bool))


def _rebuild(keyword: str, value: Any, changed: dict[Path, Any]) -> Any:
    if keyword in NAMES_SCHEMAS and isinstance(value, Mapping):
        return {name: changed.get((keyword, name), item) for name, item in value.items()}
    if keyword in LISTS_SCHEMAS and isinstance(value, list):
        return [changed.get((keyword, str(at)), item) for at, item in enumerate(value)]
    return changed.get((keyword,), value)
