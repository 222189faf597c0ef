"""A prepared JSON Schema in the shapes that xgrammar reads as JSON Schema means them.

xgrammar matches a pattern against the whole text, reads an object keyword as `type: object`, takes one part of an
`allOf` and writes arrays and objects in an `enum` without spaces. Each is put here into words that it takes right;
what cannot be said is weakened, never strengthened.
"""

from __future__ import annotations

import re
from typing import Any

from agentform.errors import Relaxation
from agentform.json_schema.keywords import Schema, SchemaDict
from agentform.json_schema.pointer import pointer
from agentform.json_schema.walk import map_subschemas

__all__ = ["adapt"]

_OF_TYPE: dict[str, frozenset[str]] = {
    "object": frozenset(
        [
            "properties",
            "required",
            "additionalProperties",
            "patternProperties",
            "propertyNames",
            "minProperties",
            "maxProperties",
        ]
    ),
    "array": frozenset(["items", "prefixItems", "minItems", "maxItems"]),
    "string": frozenset(["pattern", "format", "minLength", "maxLength"]),
    "number": frozenset(["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"]),
}
_UNIONS = ("anyOf", "oneOf")
_DEFINITIONS = ("$defs", "definitions")
_LENGTHS = ("minLength", "maxLength")
# A character of a JSON string that needs no escape, which is all that xgrammar's patterns should match.
_ANY = r'[^"\\\x00-\x1f]*'
_ESCAPABLE = re.compile(r'["\x00-\x1f]|\\\\|\\"')


def adapt(schema: Schema) -> tuple[Schema, tuple[Relaxation, ...]]:
    """The schema for xgrammar, and what it loses."""
    adapting = _Adapting()
    return adapting.schema(schema, ""), tuple(adapting.relaxed)


class _Adapting:
    def __init__(self) -> None:
        self.relaxed: list[Relaxation] = []

    def schema(self, schema: Schema, at: str) -> Schema:
        if isinstance(schema, bool):
            return schema
        made = self._joined(schema, at)
        if "const" in made or "enum" in made:
            return self._listed(made, at)
        if "pattern" in made:
            made = self._pattern(made, at)
        made = _with_required(made)
        made = map_subschemas(made, lambda path, item: self.schema(item, at + pointer(path)))
        return _typed(made)

    def _joined(self, schema: SchemaDict, at: str) -> SchemaDict:
        """One conjunct: a reference, a union or plain keywords; parts of an `allOf` join where they are apart."""
        made = {keyword: item for keyword, item in schema.items() if keyword != "allOf"}
        for part in schema.get("allOf", ()):
            if isinstance(part, dict) and not (made.keys() & part.keys()) and not _stands_alone(made, part):
                made = {**made, **part}
            elif part is not True:
                self._relax(at, "allOf", "a part is left to validation")
        keeps = next((keyword for keyword in ("$ref", "const", "enum", *_UNIONS) if keyword in made), None)
        if keeps is None:
            return made
        if lost := [key for key in made if key not in (keeps, "type", *_DEFINITIONS)]:
            self._relax(at, keeps, f"{', '.join(lost)} beside it: left to validation")
        return {key: item for key, item in made.items() if key == keeps or key in _DEFINITIONS}

    def _listed(self, schema: SchemaDict, at: str) -> SchemaDict:
        values: list[Any] = [schema["const"]] if "const" in schema else schema["enum"]
        kept = {keyword: schema[keyword] for keyword in _DEFINITIONS if keyword in schema}
        plain = [value for value in values if not isinstance(value, (dict, list))]
        arms: list[Any] = [_literal(value) for value in values if isinstance(value, (dict, list))]
        if plain:
            arms.append({"enum": plain})
        return {**kept, **arms[0]} if len(arms) == 1 else {**kept, "anyOf": arms}

    def _pattern(self, schema: SchemaDict, at: str) -> SchemaDict:
        made = dict(schema)
        whole = _whole(made.pop("pattern"))
        if whole is None:
            self._relax(at, "pattern", "left to validation")
            return made
        for keyword in (*_LENGTHS, "format"):
            if made.pop(keyword, None) is not None:
                self._relax(at, keyword, "left to validation beside a pattern")
        return {**made, "pattern": whole}

    def _relax(self, at: str, keyword: str, what: str) -> None:
        self.relaxed.append(Relaxation(pointer=f"{at}/{keyword}", what=f"{keyword}: {what}"))


def _stands_alone(made: SchemaDict, part: SchemaDict) -> bool:
    return any(keyword in schema for schema in (made, part) for keyword in ("$ref", *_UNIONS) if made)


def _literal(value: Any) -> SchemaDict:
    if isinstance(value, dict):
        members = {key: _literal(item) for key, item in value.items()}
        return {"type": "object", "properties": members, "required": list(members), "additionalProperties": False}
    if isinstance(value, list):
        items = [_literal(item) for item in value]
        shape: SchemaDict = {"type": "array", "minItems": len(items), "items": False}
        return {**shape, "prefixItems": items} if items else {"type": "array", "maxItems": 0}
    return {"enum": [value]}


def _with_required(schema: SchemaDict) -> SchemaDict:
    """Required keys are named in `properties`; xgrammar does not ask for others."""
    names = [name for name in schema.get("required", ()) if name not in schema.get("properties", {})]
    if not names:
        return schema
    rest = schema.get("additionalProperties", True)
    return {**schema, "properties": {**schema.get("properties", {}), **dict.fromkeys(names, rest)}}


def _typed(schema: SchemaDict) -> SchemaDict:
    """An object keyword without a type also takes what is no object, and so on: one arm per type."""
    if "type" in schema or not any(schema.keys() & words for words in _OF_TYPE.values()):
        return schema
    arms: list[Any] = [
        {"type": kind, **{key: item for key, item in schema.items() if key in words}}
        for kind, words in _OF_TYPE.items()
    ]
    kept = {keyword: schema[keyword] for keyword in _DEFINITIONS if keyword in schema}
    return {**kept, "anyOf": [*arms, {"type": "boolean"}, {"type": "null"}]}


def _whole(pattern: str) -> str | None:
    """A pattern that matches whole texts alone; `None` when that cannot be said simply."""
    if _ESCAPABLE.search(pattern) or "." in pattern.replace("\\.", ""):
        return None  # its characters may need an escape, which xgrammar's patterns do not know
    starts = pattern.startswith("^")
    ends = pattern.endswith("$") and not pattern.endswith("\\$")
    body = pattern[starts : len(pattern) - ends]
    if "|" in body and (starts or ends) and not _in_group(body):
        return None
    if re.search(r"(?<![\\\[])\^|(?<!\\)\$|\[\^|\\[SDW]", body):
        return None
    before, after = "" if starts else _ANY, "" if ends else _ANY
    return f"{before}({body}){after}" if "|" in body else f"{before}{body}{after}"


def _in_group(body: str) -> bool:
    """Whether every bar stands inside parentheses or brackets."""
    depth = 0
    for at, char in enumerate(body):
        if at and body[at - 1] == "\\":
            continue
        depth += (char in "([") - (char in ")]")
        if char == "|" and not depth:
            return False
    return True
