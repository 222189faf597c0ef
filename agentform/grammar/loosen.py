"""Weaker schemas, for those that an engine does not compile: each accepts all that the schema accepts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from agentform.json_schema.keywords import Schema, SchemaDict
from agentform.json_schema.pointer import steps_of
from agentform.json_schema.walk import map_subschemas

__all__ = ["RUNGS", "Rung"]

_CONJUNCTS = ("allOf", "anyOf", "oneOf")
_OPEN_OBJECT = ("patternProperties", "additionalProperties", "unevaluatedProperties", "maxProperties")
_TEXT = ("pattern", "format")
_MAX_HOPS = 32
_DEFINITIONS = ("$defs", "definitions")
_LEVELS = 3
_MOST_SHALLOW = 2_000


@dataclass(frozen=True, kw_only=True)
class Rung:
    """One way to weaken a schema."""

    what: str
    """What is given up, for people."""
    loosen: Callable[[Schema], Schema]


def _everywhere(change: Callable[[SchemaDict], SchemaDict]) -> Callable[[Schema], Schema]:
    def walk(schema: Schema) -> Schema:
        if isinstance(schema, bool):
            return schema
        return change(map_subschemas(schema, lambda _, item: walk(item)))

    return walk


def _open_patterns(schema: SchemaDict) -> SchemaDict:
    if "patternProperties" not in schema:
        return schema
    return {keyword: item for keyword, item in schema.items() if keyword not in _OPEN_OBJECT}


def _one_conjunct(schema: SchemaDict) -> SchemaDict:
    """What holds of one part alone is weaker than what holds of all: a reference, the keywords, or a union."""
    kept = {keyword: schema[keyword] for keyword in ("$defs", "definitions") if keyword in schema}
    if "$ref" in schema:
        return {**kept, "$ref": schema["$ref"]}
    plain = {keyword: item for keyword, item in schema.items() if keyword not in _CONJUNCTS}
    union = next((keyword for keyword in ("anyOf", "oneOf") if keyword in schema), None)
    if len(plain) > len(kept) or not schema.keys() & set(_CONJUNCTS):
        return plain
    return {**kept, union: schema[union]} if union else {**kept, **_first(schema["allOf"])}


def _first(arms: list[Any]) -> SchemaDict:
    return next((arm for arm in arms if isinstance(arm, dict)), {})


def _without_text(schema: SchemaDict) -> SchemaDict:
    return {keyword: item for keyword, item in schema.items() if keyword not in _TEXT}


def _combined(schema: Schema) -> Schema:
    for rung in RUNGS[:3]:
        schema = rung.loosen(schema)
    return schema


def _type_only(schema: Schema) -> Schema:
    """The JSON type at the root, references followed."""
    here: Any = schema
    for _ in range(_MAX_HOPS):
        if not isinstance(here, dict) or "$ref" not in here:
            break
        here = _target(schema, str(here["$ref"]))
    return {"type": here["type"]} if isinstance(here, dict) and "type" in here else True


def _shallow(schema: Schema) -> Schema:
    """The upper levels, references followed; below them, and where there is too much of it, only the type."""
    return _Cutting(schema).cut(schema, _LEVELS)


class _Cutting:
    def __init__(self, root: Schema) -> None:
        self._root = root
        self._left = _MOST_SHALLOW

    def cut(self, schema: Schema, levels: int) -> Schema:
        self._left -= 1
        for _ in range(_MAX_HOPS):
            if not isinstance(schema, dict) or "$ref" not in schema:
                break
            schema = _target(self._root, str(schema["$ref"])) or True
        if isinstance(schema, bool) or not isinstance(schema, dict):
            return schema is not False
        if levels == 0 or self._left < 0:
            return {"type": schema["type"]} if "type" in schema else True
        kept = {keyword: item for keyword, item in schema.items() if keyword not in _DEFINITIONS}
        return map_subschemas(kept, lambda _, item: self.cut(item, levels - 1))


def _target(root: Any, ref: str) -> Any:
    here = root
    for step in steps_of(ref.removeprefix("#")):
        here = here.get(step) if isinstance(here, dict) else None
    return here


RUNGS = (
    Rung(what="patternProperties: left to validation where they overlap", loosen=_everywhere(_open_patterns)),
    Rung(what="allOf: of what holds together, one part is enforced", loosen=_everywhere(_one_conjunct)),
    Rung(what="pattern and format: left to validation", loosen=_everywhere(_without_text)),
    Rung(what="allOf, pattern, format and patternProperties: left to validation", loosen=_combined),
    Rung(what="what lies deeper than three levels: left to validation", loosen=_shallow),
    Rung(what="everything but the type: left to validation", loosen=_type_only),
)
"""From what gives up least to what always compiles."""
