"""A schema with a bound on one value inside it: what it then accepts, it accepted before."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from agentform.json_schema.keywords import Schema, SchemaDict
from agentform.json_schema.walk import map_subschemas
from agentform.messages import JsonValue
from agentform.schema.json_text import plain
from agentform.schema.normalize import asked_of, merge

__all__ = ["BoundedKind", "PathStep", "changed_at", "narrowed", "with_keys", "without_text_rules"]

PathStep: TypeAlias = "int | tuple[str, ...]"
"""Into a list: an index. Into an object: the keys that were written, in order, of which the last one leads on."""
BoundedKind = Literal["array", "string", "number"]
_Change: TypeAlias = Callable[[Schema], "SchemaDict | None"]

_MOST_MERGES = 16
_LISTED = frozenset(["enum", "const", "oneOf"])
_BLOCKING = _LISTED | {"patternProperties", "unevaluatedProperties", "unevaluatedItems", "contains"}
"""Beside these, a name or place of its own for one value changes what is asked of the others, or is not seen."""
_ITEMS = frozenset(["items", "prefixItems"])
_BESIDE: Mapping[BoundedKind, frozenset[str]] = {
    "array": _LISTED | {"contains", "unevaluatedItems"},
    "string": _LISTED | {"pattern", "format"},
    "number": _LISTED,
}
"""Keywords that a bound cannot stand beside."""
_RANGES = (
    ("minItems", "maxItems"),
    ("minLength", "maxLength"),
    ("minimum", "maximum"),
    ("exclusiveMinimum", "maximum"),
    ("minimum", "exclusiveMaximum"),
)


def narrowed(
    schema: Mapping[str, JsonValue] | bool, steps: tuple[PathStep, ...], kind: BoundedKind, bound: Mapping[str, float]
) -> SchemaDict | None:
    """The schema with the keywords of `bound` for the values of a kind to which the steps lead.

    `schema` is self-contained; its references have the form `#/$defs/name`. `None` where it forbids what the bound
    allows, or asks for no more anyway, and where a bound might leave nothing to accept, as beside a pattern.
    """
    return changed_at(schema, steps, lambda node: _bounded(node, kind, bound))


def with_keys(
    schema: Mapping[str, JsonValue] | bool, steps: tuple[PathStep, ...], keys: Sequence[str], *, closed: bool
) -> SchemaDict | None:
    """The schema with names for the keys of an object to which the steps lead, so that each can stand there once.

    With `closed` it holds no others. `None` where nothing is left to narrow, or where it would hold too few.
    """
    return changed_at(schema, steps, lambda node: _keyed(node, keys, closed=closed))


def without_text_rules(schema: Mapping[str, JsonValue] | bool) -> Schema:
    """The schema without what it asks of the characters of texts and keys: it accepts all that it accepted."""
    known: Schema = schema if isinstance(schema, bool) else plain(schema)
    return known if isinstance(known, bool) else _without_text_rules(known)


def _without_text_rules(schema: Schema) -> Schema:
    if isinstance(schema, bool):
        return schema
    kept = {key: item for key, item in schema.items() if key not in ("pattern", "format", "patternProperties")}
    if "patternProperties" in schema:
        kept.pop("additionalProperties", None)  # it would forbid what the patterns allowed
    return map_subschemas(kept, lambda _, item: _without_text_rules(item))


def changed_at(
    schema: Mapping[str, JsonValue] | bool,
    steps: tuple[PathStep, ...],
    change: Callable[[SchemaDict], SchemaDict | None],
) -> SchemaDict | None:
    """The schema with `change` applied to what it asks of the value to which the steps lead, and of no other."""
    known: Schema = schema if isinstance(schema, bool) else plain(schema)
    defs = {} if isinstance(known, bool) else known.get("$defs", {})
    made = _Narrowing(defs, change).at(known, steps)
    return {**made, "$defs": defs} if made is not None and defs else made


@dataclass(frozen=True)
class _Narrowing:
    defs: Mapping[str, Schema]
    change: Callable[[SchemaDict], SchemaDict | None]

    def at(self, schema: Schema, steps: tuple[PathStep, ...]) -> SchemaDict | None:
        node = self._merged(schema)
        if node is None:
            return None
        if "anyOf" in node:
            return self._arms(node, steps)
        if not steps:
            return self.change(node)
        if node.keys() & _BLOCKING:
            return None
        step, further = steps[0], steps[1:]

        def change(inner: Schema) -> SchemaDict | None:
            return self.at(inner, further)

        return _item(node, step, change) if isinstance(step, int) else _member(node, step, change)

    def _merged(self, schema: Schema) -> SchemaDict | None:
        """The schema as one set of keywords; `None` where it accepts nothing or its parts stay apart."""
        for _ in range(_MOST_MERGES):
            if schema is False:
                return None
            node: SchemaDict = {} if schema is True else {key: v for key, v in schema.items() if key != "$defs"}
            if "$ref" in node:
                part = self.defs[node.pop("$ref").rpartition("/")[2]]
            elif "allOf" in node:
                part, *others = node.pop("allOf")
                node = {**node, "allOf": others} if others else node
            else:
                return node
            if isinstance(part, dict) and _ITEMS & part.keys() and _ITEMS & node.keys():
                return None  # what `items` is for depends on the `prefixItems` beside it, in its own part only
            schema = merge(part, node)
        return None

    def _arms(self, node: SchemaDict, steps: tuple[PathStep, ...]) -> SchemaDict | None:
        """The bound in every arm that can have it."""
        beside = {keyword: value for keyword, value in node.items() if keyword != "anyOf"}
        arms = [merge(arm, beside) for arm in node["anyOf"]]
        made = [self.at(arm, steps) for arm in arms]
        if all(new is None for new in made):
            return None
        return {"anyOf": [arm if new is None else new for arm, new in zip(arms, made, strict=True)]}


def _bounded(node: SchemaDict, kind: BoundedKind, bound: Mapping[str, float]) -> SchemaDict | None:
    if not _allows(node, kind) or node.keys() & _BESIDE[kind]:
        return None
    added = {key: value for key, value in bound.items() if key != "multipleOf" or key not in node}
    if node.get("type") == "integer":
        added.pop("multipleOf", None)
    made = merge(added, node)
    if made == node or not isinstance(made, dict) or any(_is_empty(made, *ends) for ends in _RANGES):
        return None
    return made


def _keyed(node: SchemaDict, keys: Sequence[str], *, closed: bool) -> SchemaDict | None:
    if not _allows(node, "object") or node.keys() & (_LISTED | {"unevaluatedProperties"}):
        return None
    named = node.get("properties", {})
    members = {**named, **{key: asked_of(node, key) for key in keys if key not in named}}
    if closed:
        made = {**node, "properties": members, "additionalProperties": False}
        made.pop("patternProperties", None)
        return made if len(members) >= node.get("minProperties", 0) else None
    return {**node, "properties": members} if len(members) > len(named) else None


def _is_empty(node: SchemaDict, least: str, most: str) -> bool:
    return node.get(least, -math.inf) > node.get(most, math.inf)


def _item(node: SchemaDict, index: int, change: _Change) -> SchemaDict | None:
    """Change what is asked of one item, and of no other."""
    own, others = node.get("prefixItems", []), node.get("items", True)
    made = change(own[index] if index < len(own) else others)
    if made is None or not _allows(node, "array"):
        return None
    before = [*own[:index], *[others] * (index - len(own))]
    return {**node, "prefixItems": [*before, made, *own[index + 1 :]]}


def _member(node: SchemaDict, written: tuple[str, ...], change: _Change) -> SchemaDict | None:
    """Change what is asked of the last key that was written, and of no other.

    Additional keys before it get names too: under a grammar, keys that have one come first, and in this order.
    """
    others = node.get("additionalProperties", True)
    named = node.get("properties", {})
    made = change(named.get(written[-1], others))
    if made is None or not _allows(node, "object"):
        return None
    added = {key: others for key in written if key not in named}
    return {**node, "properties": {**named, **added, written[-1]: made}}


def _allows(node: SchemaDict, kind: str) -> bool:
    said = node.get("type", kind)
    kinds = [said] if isinstance(said, str) else said
    return kind in kinds or (kind == "number" and "integer" in kinds)
