"""Maps whose keys are held to a schema: properties where the keys are listed, patterns where they are not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agentform.json_schema.keywords import Schema, SchemaDict, is_annotation
from agentform.schema.normalize import asked_of

__all__ = ["with_named_keys"]

_FORMATS = {
    "uuid": "[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}",
    "date": "[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])",
    "ipv4": r"((25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])\.){3}(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])",
}
"""Formats that a pattern can say, more narrowly where a format has several ways to write the same."""


def with_named_keys(schema: SchemaDict, settled: Callable[[Schema], Schema]) -> SchemaDict:
    """An object schema with its `propertyNames` said in words that forms and grammars keep.

    It accepts no more than before; `settled` follows the references of what is asked of keys.
    """
    names = settled(schema["propertyNames"])
    if isinstance(names, bool):
        return _without_names(schema) if names else {**schema, "maxProperties": 0}
    if "enum" in names:
        return _listed(schema, [name for name in names["enum"] if isinstance(name, str)])
    pattern = _pattern_of(names)
    if pattern is None or schema.get("properties") or schema.get("patternProperties"):
        return schema
    others = schema.get("additionalProperties", True)
    return {**_without_names(schema), "patternProperties": {pattern: others}, "additionalProperties": False}


def _listed(schema: SchemaDict, names: list[str]) -> SchemaDict:
    members = {name: asked_of(schema, name) for name in names}
    made = {key: value for key, value in _without_names(schema).items() if key != "patternProperties"}
    return {**made, "properties": members, "additionalProperties": False}


def _without_names(schema: SchemaDict) -> SchemaDict:
    return {key: value for key, value in schema.items() if key != "propertyNames"}


def _pattern_of(names: SchemaDict) -> str | None:
    """The one pattern that says what is asked of keys; `None` when it takes more than that."""
    asked: dict[str, Any] = {k: v for k, v in names.items() if not is_annotation(k) and (k, v) != ("type", "string")}
    match sorted(asked):
        case ["pattern"]:
            return asked["pattern"]
        case ["format"] if asked["format"] in _FORMATS:
            return f"^{_FORMATS[asked['format']]}$"
        case ["minLength"] | ["maxLength"] | ["maxLength", "minLength"]:
            most = asked.get("maxLength", "")
            return f"^[^\\x00-\\x1f]{{{int(asked.get('minLength', 0))},{most and int(most)}}}$"
        case _:
            return None
