"""Schemas that all hold, as one: two merged, a property by all that speaks of it, references and `allOf` folded in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from agentform.errors import UnsupportedSchema
from agentform.json_schema.keywords import Schema, SchemaDict, is_annotation
from agentform.schema.closed_values import distinct, identity
from agentform.schema.form import Path
from agentform.schema.refs import Document
from agentform.schema.regex import compiled

__all__ = ["Settled", "asked_of", "merge", "settle"]

_GREATEST = frozenset(["minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties", "minContains"])
_LEAST = frozenset(["maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties", "maxContains"])
_OBJECT = ("properties", "patternProperties", "additionalProperties")


def merge(inner: Schema, outer: Schema) -> Schema:
    """A schema that accepts what both accept; annotations of `outer` win, its properties stand first.

    Keywords that cannot be combined stay beside the result as an `allOf`. Two schemas without a common type
    merge into `False`.
    """
    if inner is False or outer is False:
        return False
    if inner is True or outer is True:
        return outer if inner is True else inner
    return _Merging(inner, outer).made()


class _Merging:
    def __init__(self, inner: SchemaDict, outer: SchemaDict) -> None:
        self._inner = inner
        self._outer = outer
        self._made: SchemaDict = dict(outer)
        self._left: SchemaDict = {}

    def made(self) -> Schema:
        self._objects()
        for keyword, value in self._inner.items():
            if keyword in _OBJECT:
                continue
            if not self._take(keyword, value):
                return False
        if self._left:
            self._made["allOf"] = [*self._made.get("allOf", []), self._left]
        return self._made

    def _take(self, keyword: str, value: Any) -> bool:
        """Put one keyword of the inner schema into the result; False when nothing can satisfy both."""
        if keyword not in self._made:
            self._made[keyword] = value
        elif is_annotation(keyword) or identity(self._made[keyword]) == identity(value):
            pass
        elif keyword == "type":
            self._made["type"] = _common_types(self._made["type"], value)
            return bool(self._made["type"])
        elif keyword in _GREATEST:
            self._made[keyword] = max(self._made[keyword], value)
        elif keyword in _LEAST:
            self._made[keyword] = min(self._made[keyword], value)
        elif keyword in ("required", "allOf"):
            self._made[keyword] = distinct([*self._made[keyword], *value])
        elif keyword == "uniqueItems":
            self._made[keyword] = True
        elif keyword in ("$defs", "definitions"):
            self._made[keyword] = {**value, **self._made[keyword]}
        else:
            self._left[keyword] = value
        return True

    def _objects(self) -> None:
        inner = {key: self._inner[key] for key in _OBJECT if key in self._inner}
        outer = {key: self._outer[key] for key in _OBJECT if key in self._outer}
        if not inner or not outer:
            self._made.update(inner)
        elif "properties" in inner or "properties" in outer:
            self._made.update(_merged_objects(inner, outer))
        elif inner != outer:
            self._left.update(inner)


def _merged_objects(inner: SchemaDict, outer: SchemaDict) -> SchemaDict:
    names = list(dict.fromkeys([*outer.get("properties", {}), *inner.get("properties", {})]))
    made: SchemaDict = {"properties": {name: _both(asked_of(outer, name), asked_of(inner, name)) for name in names}}
    if patterns := {**inner.get("patternProperties", {}), **outer.get("patternProperties", {})}:
        made["patternProperties"] = patterns
    if "additionalProperties" in inner or "additionalProperties" in outer:
        made["additionalProperties"] = _both(
            outer.get("additionalProperties", True), inner.get("additionalProperties", True)
        )
    return made


def asked_of(schema: SchemaDict, name: str) -> Schema:
    """What an object schema asks of the property, by name, by pattern or as an additional one."""
    parts = [schema["properties"][name]] if name in schema.get("properties", {}) else []
    parts += [item for pattern, item in schema.get("patternProperties", {}).items() if compiled(pattern).search(name)]
    if not parts:
        return schema.get("additionalProperties", True)
    return parts[0] if len(parts) == 1 else {"allOf": parts}


def _both(first: Schema, second: Schema) -> Schema:
    if first is False or second is False:
        return False
    if first in (True, {}) or identity(first) == identity(second):
        return second
    return first if second in (True, {}) else {"allOf": [first, second]}


def _common_types(first: Any, second: Any) -> Any:
    ours: list[str] = [first] if isinstance(first, str) else first
    theirs: list[str] = [second] if isinstance(second, str) else second
    both = [kind for kind in ours if kind in theirs or (kind == "integer" and "number" in theirs)]
    both += [kind for kind in theirs if kind == "integer" and "number" in ours and kind not in both]
    return both[0] if len(both) == 1 else both


@dataclass(frozen=True, kw_only=True)
class Settled:
    """A schema without `$ref`; an `allOf` in it holds only what could not be merged."""

    schema: Schema
    refs: frozenset[str]
    """The references given, and those followed here."""
    repeat: str = ""
    """Name of the definition that was being unfolded already; `schema` is then the schema as it stood."""
    where: Path | None = None
    """Path of the definition in the document, where the schema was a reference."""

    @property
    def title(self) -> str:
        if self.repeat:
            return self.repeat
        title = self.schema.get("title", "") if isinstance(self.schema, dict) else ""
        return title if isinstance(title, str) else ""


def settle(schema: Schema, document: Document, refs: frozenset[str], chain: frozenset[str] = frozenset()) -> Settled:
    """The schema with references followed and `allOf` folded in; annotations nearest to the place win.

    `refs` are those that places further up have followed, `chain` those followed for this very place.

    Raises:
        UnsupportedSchema: references lead round in a circle without anything between.
    """
    if isinstance(schema, bool):
        return Settled(schema=schema, refs=refs)
    key = ("settled", id(schema), refs, chain)
    known = document.kept.get(key)
    if known is not None and known[0] is schema:
        return known[1]
    document.work.spend(1 + len(schema))
    made = _settled(schema, document, refs, chain)
    document.kept[key] = schema, made
    return made


def _settled(schema: SchemaDict, document: Document, refs: frozenset[str], chain: frozenset[str]) -> Settled:
    parts: list[Schema] = [document.target(schema["$ref"])] if "$ref" in schema else []
    where = None
    members = chain
    if "$ref" in schema:
        ref: str = schema["$ref"]
        if ref in chain:
            raise UnsupportedSchema("references lead round in a circle", pointer=ref[1:])
        if ref in refs:
            return Settled(schema=schema, refs=refs, repeat=document.name_of(ref))
        where, chain = document.path_of(ref), chain | {ref}
    made: Schema = {key: item for key, item in schema.items() if key not in ("$ref", "allOf")}
    entered = refs | chain
    for part, via in [(p, chain) for p in parts] + [(p, members) for p in schema.get("allOf", [])]:
        settled = settle(part, document, refs, via)
        if settled.repeat:
            return Settled(schema=schema, refs=refs, repeat=settled.repeat)
        made = merge(settled.schema, made)
        entered, where = entered | settled.refs, settled.where if via is chain and settled.where else where
    return Settled(schema=made, refs=entered, where=where)
