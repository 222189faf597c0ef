"""JSON Schemas of arguments, which are objects whether their schema says so or not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from agentform.schema.target import Target, load

__all__ = ["load_arguments"]

_NEVER_NULL = frozenset(
    {"$defs", "additionalProperties", "allOf", "anyOf", "definitions", "description", "enum", "format", "items"}
    | {"maxItems", "maxLength", "maximum", "minItems", "minLength", "minimum", "oneOf", "pattern", "properties"}
    | {"required", "title", "type"}
)
_OTHERS = ("", 0, True, None, [])
"""A value of each type that arguments cannot be of."""


def load_arguments(schema: Any, *, name: str, lenient: bool) -> Target:
    """The target of a tool's arguments: a schema that allows other values as well is narrowed to objects.

    Servers leave `type` out, write null there, or give no schema at all; a call's arguments are a JSON object all the
    same.

    Raises:
        UnsupportedSchema: as `load`.
    """
    if schema is None or schema is True:
        schema = {"type": "object"}
    if not isinstance(schema, Mapping):
        return load(schema, name=name, lenient=lenient)
    said = _without_nulls(schema)
    target = load(said, name=name, lenient=lenient)
    if said.get("type") == "object" or not any(target.validator.check(other) == () for other in _OTHERS):
        return target
    return load(_narrowed(said), name=name, lenient=lenient)


def _without_nulls(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema, and those below it, without keywords that say nothing: null is no value that they could have."""
    kept: dict[str, Any] = {}
    for key, value in schema.items():
        if value is None and key in _NEVER_NULL:
            continue
        if key in ("properties", "$defs", "definitions") and isinstance(value, Mapping):
            value = {name: _below(item) for name, item in cast("Mapping[str, Any]", value).items()}
        kept[key] = _below(value) if key in ("items", "additionalProperties") else value
    return kept


def _below(schema: Any) -> Any:
    return _without_nulls(cast("Mapping[str, Any]", schema)) if isinstance(schema, Mapping) else schema


def _narrowed(schema: dict[str, Any]) -> dict[str, Any]:
    types = schema.get("type", "object")
    if types != "object" and "object" not in types:
        return schema
    if "$ref" not in schema:
        return {**schema, "type": "object"}
    rest = {key: value for key, value in schema.items() if key != "$ref"}
    # Older drafts pass over what stands beside a reference.
    return {**rest, "type": "object", "allOf": [*rest.get("allOf", ()), {"$ref": schema["$ref"]}]}
