"""JSON Schema keywords as data: which are understood, which only annotate, and where subschemas stand."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

from agentform.schema.form import Path

__all__ = [
    "ANNOTATION",
    "ASSERTIONS",
    "IMPLEMENTED",
    "LEFT_TO_VALIDATION",
    "Schema",
    "SchemaDict",
    "is_annotation",
    "map_subschemas",
    "subschemas",
    "unknown_keywords",
]

SchemaDict: TypeAlias = dict[str, Any]
Schema: TypeAlias = SchemaDict | bool


def _words(*lines: str) -> list[str]:
    return " ".join(lines).split()


ANNOTATION = frozenset(
    _words(
        "title description default examples example deprecated readOnly writeOnly $comment",
        "$schema $id id $anchor $vocabulary contentMediaType contentEncoding contentSchema",
        "discriminator externalDocs xml",
    )
)
"""Keywords that never decide whether a value is valid."""

_ONE = frozenset(
    _words(
        "items additionalItems contains additionalProperties propertyNames unevaluatedItems",
        "unevaluatedProperties not if then else contentSchema",
    )
)
_MANY = frozenset(_words("allOf anyOf oneOf prefixItems items"))
_NAMED = frozenset(_words("properties patternProperties $defs definitions dependentSchemas dependencies"))
_PLAIN = frozenset(
    _words(
        "$ref type enum const multipleOf minimum maximum exclusiveMinimum exclusiveMaximum minLength",
        "maxLength pattern format minItems maxItems uniqueItems minContains maxContains minProperties",
        "maxProperties required dependentRequired",
    )
)

ASSERTIONS = _PLAIN - {"$ref", "format"}
"""Keywords of draft 2020-12's validation vocabulary."""

IMPLEMENTED = (_ONE | _MANY | _NAMED | _PLAIN) - ANNOTATION
"""Keywords that the compiler or the validator acts on."""

LEFT_TO_VALIDATION = tuple(
    _words(
        "allOf anyOf oneOf not if then else dependentRequired dependentSchemas propertyNames minProperties",
        "maxProperties unevaluatedProperties contains unevaluatedItems",
    )
)
"""Keywords that a record does not express; its value is still validated against them."""


def is_annotation(keyword: str) -> bool:
    """Whether the keyword only annotates; every `x-` extension does."""
    return keyword in ANNOTATION or keyword.startswith("x-")


def subschemas(schema: SchemaDict) -> Iterator[tuple[Path, Any]]:
    """The schemas directly inside `schema`, each with its path from there."""
    for keyword, value in schema.items():
        if keyword in _NAMED and isinstance(value, Mapping):
            yield from (((keyword, name), item) for name, item in value.items() if _is_schema(item))
        elif keyword in _MANY and isinstance(value, list):
            yield from (((keyword, str(at)), item) for at, item in enumerate(value) if _is_schema(item))
        elif keyword in _ONE and _is_schema(value):
            yield (keyword,), value


def map_subschemas(schema: SchemaDict, change: Callable[[Path, Any], Any]) -> SchemaDict:
    """A copy of `schema` in which each direct subschema is what `change(path, subschema)` returns."""
    changed = {path: change(path, item) for path, item in subschemas(schema)}
    return {keyword: _rebuild(keyword, value, changed) for keyword, value in schema.items()}


def unknown_keywords(schema: Any) -> Iterator[Path]:
    """Paths of all keywords in `schema` and below that neither table holds."""
    if not isinstance(schema, dict):
        return
    known: SchemaDict = schema
    for keyword in known:
        if keyword not in IMPLEMENTED and not is_annotation(keyword):
            yield (keyword,)
    for path, item in subschemas(known):
        if path[0] not in ANNOTATION:
            yield from (path + rest for rest in unknown_keywords(item))


def _is_schema(value: Any) -> bool:
    return isinstance(value, (dict, bool))


def _rebuild(keyword: str, value: Any, changed: dict[Path, Any]) -> Any:
    if keyword in _NAMED and isinstance(value, Mapping):
        return {name: changed.get((keyword, name), item) for name, item in value.items()}
    if keyword in _MANY and isinstance(value, list):
        return [changed.get((keyword, str(at)), item) for at, item in enumerate(value)]
    return changed.get((keyword,), value)
