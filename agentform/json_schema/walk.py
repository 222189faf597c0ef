"""Walking through a JSON Schema by where its keywords hold subschemas."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, cast

from agentform.json_schema.keywords import LISTS_SCHEMAS, NAMES_SCHEMAS, TAKES_SCHEMA, SchemaDict
from agentform.json_schema.pointer import Path

__all__ = ["map_subschemas", "subschemas"]


def subschemas(schema: SchemaDict) -> Iterator[tuple[Path, Any]]:
    """The schemas directly inside `schema`, each with its path from there."""
    for keyword, value in schema.items():
        held = _held(keyword, value)
        if held is not None:
            yield from (((keyword, name), item) for name, item in held if _is_schema(item))
        elif keyword in TAKES_SCHEMA and _is_schema(value):
            yield (keyword,), value


def map_subschemas(schema: SchemaDict, change: Callable[[Path, Any], Any]) -> SchemaDict:
    """A copy of `schema` in which each direct subschema is what `change(path, subschema)` returns."""
    changed = {path: change(path, item) for path, item in subschemas(schema)}
    return {keyword: _rebuilt(keyword, value, changed) for keyword, value in schema.items()}


def _held(keyword: str, value: Any) -> Iterable[tuple[str, Any]] | None:
    """What an object or a list of schemas holds, by key or number; `None` for another value."""
    if keyword in NAMES_SCHEMAS and isinstance(value, Mapping):
        return cast("Mapping[str, Any]", value).items()
    if keyword in LISTS_SCHEMAS and isinstance(value, list):
        return ((str(at), item) for at, item in enumerate(cast("list[Any]", value)))
    return None


def _is_schema(value: Any) -> bool:
    return isinstance(value, (dict, bool))


def _rebuilt(keyword: str, value: Any, changed: dict[Path, Any]) -> Any:
    held = _held(keyword, value)
    if held is None:
        return changed.get((keyword,), value)
    made = {name: changed.get((keyword, name), item) for name, item in held}
    return list(made.values()) if isinstance(value, list) else made
