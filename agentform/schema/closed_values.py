"""Closed schemas: those whose legal values can be listed."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable
from json.encoder import encode_basestring_ascii
from typing import Any

from agentform.json_schema.keywords import Schema, SchemaDict, is_annotation
from agentform.messages import JsonValue
from agentform.schema.jsonschema_keywords import equality
from agentform.schema.validate import SchemaValidator

__all__ = ["MAX_RANGE", "all_differ", "candidates", "distinct", "identity", "legal", "types_of"]

MAX_RANGE = 32
"""The most integers that a bounded range may hold and still be a choice."""

_RANGE = frozenset(["type", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"])


def identity(value: JsonValue) -> str:
    """A text that two JSON values share exactly when they would be written alike: 1, 1.0 and true differ."""
    if isinstance(value, str):
        return encode_basestring_ascii(value)
    return json.dumps(value, sort_keys=True, default=str)


def distinct(values: Iterable[Any]) -> list[Any]:
    """The values in their order without repetitions, by `identity`."""
    return list({identity(value): value for value in values}.values())


def all_differ(values: Iterable[JsonValue]) -> bool:
    """Whether no two values are equal as JSON Schema compares them, by which 1 equals 1.0 but not true."""
    seen = [equality(value) for value in values]
    return len(seen) == len(set(seen))


def types_of(schema: SchemaDict) -> list[str]:
    """The JSON types that `type` names, without an `integer` that `number` covers; empty without `type`."""
    named = schema.get("type", [])
    types: list[str] = [named] if isinstance(named, str) else list(named)
    return [kind for kind in types if not (kind == "integer" and "number" in types)]


def candidates(schema: SchemaDict) -> tuple[list[JsonValue], str] | None:
    """The values that a schema lists, before its other keywords are heeded, and why they are few."""
    if "const" in schema:
        return [schema["const"]], "const"
    if "enum" in schema:
        return list(schema["enum"]), "enum"
    lists = [_of_type(kind, schema) for kind in types_of(schema)]
    if not lists or None in lists:
        return None
    found = [item for item in lists if item is not None]
    return [value for values, _ in found for value in values], " or ".join(why for _, why in found)


def legal(
    values: list[JsonValue], schema: SchemaDict, closed: Callable[[Schema], Schema], *, own: bool
) -> list[JsonValue]:
    """Those of the candidate values that the whole schema accepts; `closed` makes a schema self-contained.

    `own` says that the values are what the schema's own keywords list, so that a range need not be heeded twice.
    """
    rest = {k: v for k, v in schema.items() if k not in ("const", "enum", "$defs", "definitions")}
    if "const" in schema and "enum" in schema:
        allowed = {identity(value) for value in schema["enum"]}
        values = [value for value in values if identity(value) in allowed]
    if all(is_annotation(keyword) for keyword in rest):
        return distinct(values)
    if set(rest) - {"type"} and not (own and _is_range(schema, rest)):
        validator = SchemaValidator(closed(rest))
        return [value for value in distinct(values) if not validator.check(value)]
    return [value for value in distinct(values) if _has_type(value, types_of(schema))]


def _is_range(schema: SchemaDict, rest: SchemaDict) -> bool:
    listed = "const" not in schema and "enum" not in schema
    return listed and all(keyword in _RANGE or is_annotation(keyword) for keyword in rest)


def _of_type(kind: str, schema: SchemaDict) -> tuple[list[JsonValue], str] | None:
    match kind:
        case "null":
            return [None], "null"
        case "boolean":
            return [True, False], "boolean"
        case "integer":
            numbers = _integers(schema)
            if numbers is None:
                return None
            return list(numbers), f"integer range {numbers[0]}..{numbers[-1]}" if numbers else "empty integer range"
        case _:
            return None


def _integers(schema: SchemaDict) -> range | None:
    bounds = [schema.get(key) for key in ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum")]
    if any(isinstance(bound, float) and not math.isfinite(bound) for bound in bounds):
        return None
    lower, above, upper, below = bounds
    lows = ([math.ceil(lower)] if lower is not None else []) + ([math.floor(above) + 1] if above is not None else [])
    highs = ([math.floor(upper)] if upper is not None else []) + ([math.ceil(below) - 1] if below is not None else [])
    if not lows or not highs:
        return None
    step = schema.get("multipleOf", 1)
    if step != int(step):
        return None
    step = int(step)
    first, last = -(-max(lows) // step) * step, min(highs)
    return range(first, last + 1, step) if last - first < MAX_RANGE * step else None


def _has_type(value: JsonValue, types: list[str]) -> bool:
    if not types:
        return True
    match value:
        case None:
            return "null" in types
        case bool():
            return "boolean" in types
        case int():
            return "integer" in types or "number" in types
        case float():
            return "number" in types or ("integer" in types and value.is_integer())
        case str():
            return "string" in types
        case list() | tuple():
            return "array" in types
        case _:
            return "object" in types
