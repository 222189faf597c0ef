"""What the compiler and the validator do with each keyword of JSON Schema, as data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from agentform.json_schema.keywords import (
    ANNOTATIONS,
    LISTS_SCHEMAS,
    NAMES_SCHEMAS,
    TAKES_SCHEMA,
    SchemaDict,
    is_annotation,
)
from agentform.json_schema.pointer import Path
from agentform.json_schema.walk import subschemas

__all__ = ["ASSERTIONS", "IMPLEMENTED", "LEFT_TO_VALIDATION", "unknown_keywords"]


def _words(*lines: str) -> list[str]:
    return " ".join(lines).split()


_PLAIN = frozenset(
    _words(
        "$ref type enum const multipleOf minimum maximum exclusiveMinimum exclusiveMaximum minLength",
        "maxLength pattern format minItems maxItems uniqueItems minContains maxContains minProperties",
        "maxProperties required dependentRequired",
    )
)

ASSERTIONS = _PLAIN - {"$ref", "format"}
"""Keywords of draft 2020-12's validation vocabulary."""

IMPLEMENTED = (TAKES_SCHEMA | LISTS_SCHEMAS | NAMES_SCHEMAS | _PLAIN) - ANNOTATIONS
"""Keywords that the compiler or the validator acts on."""

LEFT_TO_VALIDATION = tuple(
    _words(
        "allOf anyOf oneOf not if then else dependentRequired dependentSchemas propertyNames minProperties",
        "maxProperties unevaluatedProperties contains unevaluatedItems",
    )
)
"""Keywords that a record does not express; its value is still validated against them."""


def unknown_keywords(schema: Any) -> Iterator[Path]:
    """Paths of all keywords in `schema` and below that are neither acted on nor annotations."""
    if not isinstance(schema, dict):
        return
    known: SchemaDict = schema
    for keyword in known:
        if keyword not in IMPLEMENTED and not is_annotation(keyword):
            yield (keyword,)
    for path, item in subschemas(known):
        if path[0] not in ANNOTATIONS:
            yield from (path + rest for rest in unknown_keywords(item))
