"""The keywords of JSON Schema as data: which only annotate, and in which subschemas stand."""

from __future__ import annotations

from typing import Any, TypeAlias

__all__ = ["ANNOTATIONS", "LISTS_SCHEMAS", "NAMES_SCHEMAS", "TAKES_SCHEMA", "Schema", "SchemaDict", "is_annotation"]

SchemaDict: TypeAlias = dict[str, Any]
Schema: TypeAlias = SchemaDict | bool


def _words(*lines: str) -> frozenset[str]:
    return frozenset(" ".join(lines).split())


ANNOTATIONS = _words(
    "title description default examples example deprecated readOnly writeOnly $comment",
    "$schema $id id $anchor $vocabulary contentMediaType contentEncoding contentSchema",
    "discriminator externalDocs xml",
)
"""Keywords that never decide whether a value is valid; every `x-` extension is one too."""

TAKES_SCHEMA = _words(
    "items additionalItems contains additionalProperties propertyNames unevaluatedItems",
    "unevaluatedProperties not if then else contentSchema",
)
"""Keywords whose value is a schema."""
LISTS_SCHEMAS = _words("allOf anyOf oneOf prefixItems items")
"""Keywords whose value may be a list of schemas; `items` may be either, in drafts before 2020-12."""
NAMES_SCHEMAS = _words("properties patternProperties $defs definitions dependentSchemas dependencies")
"""Keywords whose value is an object of schemas; in `dependencies` some may be lists of names instead."""


def is_annotation(keyword: str) -> bool:
    """Whether the keyword only annotates; every `x-` extension does."""
    return keyword in ANNOTATIONS or keyword.startswith("x-")
