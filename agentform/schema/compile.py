"""JSON Schema -> `Form`: every place of the value is fixed, a choice, free, a record of these, or a union."""

from __future__ import annotations

from dataclasses import dataclass, replace

from agentform.errors import UnsupportedSchema
from agentform.json_schema.keywords import Schema, SchemaDict, is_annotation
from agentform.messages import JsonValue
from agentform.schema.classify import (
    MAX_REPEAT,
    MAX_SUBSET,
    RULES_OF_LISTS,
    always_written,
    bounds_of,
    closed_leaf,
    has_free,
    is_disjoint,
    is_plain_array,
    is_record,
    only_constrains,
    union_of,
)
from agentform.schema.closed_values import all_differ, candidates, distinct, legal, types_of
from agentform.schema.dependencies import dependencies
from agentform.schema.descriptions import one_line, say_free
from agentform.schema.draft import JsonSchemaDraft
from agentform.schema.form import (
    Choice,
    Field,
    Form,
    Free,
    Node,
    Path,
    Record,
    Relaxation,
    Repeat,
    Subset,
    Union,
    pointer,
)
from agentform.schema.impossible import why_impossible
from agentform.schema.keywords import LEFT_TO_VALIDATION, unknown_keywords
from agentform.schema.map_keys import with_named_keys
from agentform.schema.normalize import asked_of, settle
from agentform.schema.partial import demanded, mentioned
from agentform.schema.presence import with_presence_said
from agentform.schema.refs import Document
from agentform.schema.union_labels import label_arms

__all__ = ["MAX_DEPTH", "MAX_NODES", "compile_schema"]

MAX_DEPTH = 32
"""Levels of records and unions that are unfolded; what is deeper is one free leaf."""
MAX_NODES = 10_000
"""Nodes that are unfolded, which bounds definitions that use one another many times."""


def compile_schema(
    schema: Schema, *, name: str, description: str = "", draft: JsonSchemaDraft = "2020-12", lenient: bool = False
) -> Form:
    """The form of a well-formed JSON Schema.

    With `lenient` an unknown keyword is listed in `Form.relaxed`.

    Raises:
        UnsupportedSchema: a keyword is unknown, or no value satisfies the schema.
    """
    relaxed = tuple(
        Relaxation(pointer=pointer(path), what=f"unknown keyword {path[-1]!r} is ignored")
        for path in unknown_keywords(schema)
    )
    if relaxed and not lenient:
        first = relaxed[0]
        raise UnsupportedSchema(first.what.replace("is ignored", "is not supported"), pointer=first.pointer)
    compiler = _FormCompiler(Document(schema, draft))
    root = compiler.root()
    if root is None:
        raise compiler.contradiction()
    found = relaxed + tuple(dict.fromkeys(compiler.relaxed))
    return Form(name=name, root=root, schema=schema, description=one_line(description), relaxed=found)


@dataclass(frozen=True, kw_only=True)
class _Spot:
    """Where the compiler stands, in the value and in the schema."""

    path: Path = ()
    where: Path = ()
    """Path in the schema document, as far as merging leaves one."""
    refs: frozenset[str] = frozenset()
    """References unfolded on the way here."""
    depth: int = 0
    description: str = ""

    def below(self, name: str) -> _Spot:
        where = (*self.where, "properties", name)
        return replace(self, path=(*self.path, name), where=where, depth=self.depth + 1, description="")

    def item(self, at: int) -> _Spot:
        return replace(self.below(str(at)), where=(*self.where, "items"))

    def described(self, schema: Schema) -> _Spot:
        text = one_line(schema.get("description")) if isinstance(schema, dict) else ""
        return replace(self, description=text or self.description)


class _FormCompiler:
    """Methods that return `None` for a node mean: no value satisfies the schema there."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._num_nodes = 0
        self.relaxed: list[Relaxation] = []
        self.impossible: list[Relaxation] = []
        """Places that no value satisfies, and why."""

    def contradiction(self) -> UnsupportedSchema:
        """Why the whole cannot be satisfied: the first place that cannot."""
        if not self.impossible:
            return UnsupportedSchema("no value satisfies it")
        first = self.impossible[0]
        return UnsupportedSchema(f"no value satisfies it: {first.what}", pointer=first.pointer)

    def root(self) -> Node | None:
        return self._node({"$ref": "#"}, _Spot())

    def _node(self, schema: Schema, spot: _Spot) -> Node | None:
        self._num_nodes += 1
        self._document.work.where = spot.where
        self._document.work.spend(4)
        settled = settle(schema, self._document, spot.refs)
        if settled.schema is False:
            return None
        if settled.repeat or spot.depth > MAX_DEPTH or self._num_nodes > MAX_NODES:
            why = f"recursive: {settled.repeat}" if settled.repeat else "nested deeply"
            return self._free(schema, spot.described(schema), why)
        if settled.schema is True:
            return self._free(True, spot, "any")
        spot = replace(spot, refs=settled.refs, where=spot.where if settled.where is None else settled.where)
        spot = spot.described(settled.schema)
        if why := why_impossible(settled.schema, self._document.closed):
            return self._impossible(spot, why)
        closed = self._closed(settled.schema, spot.refs)
        if closed is not None:
            return closed_leaf(closed[0], spot.path, spot.description, closed[1])
        return self._open(settled.schema, spot)

    def _open(self, schema: SchemaDict, spot: _Spot) -> Node | None:
        if "propertyNames" in schema:
            schema = with_named_keys(schema, lambda names: self._names(names, spot.refs))
        union = union_of(schema)
        if union and not self._only_constrains(schema, union, spot.refs):
            return self._union(schema, union, spot)
        if len(types := types_of(schema)) > 1:
            bare = _without_annotations(schema)
            return self._arms([{**bare, "type": kind} for kind in types], schema, spot, "type list")
        if is_record(schema):
            return self._record(schema, spot)
        if types_of(schema) == ["array"] and is_plain_array(schema):
            return self._array(schema, spot)
        return self._free(schema, spot, say_free(schema))

    def _only_constrains(self, schema: SchemaDict, union: str, refs: frozenset[str]) -> bool:
        arms = [settle(arm, self._document, refs).schema for arm in schema[union]]
        return only_constrains({**schema, union: arms}, union)

    def _names(self, names: Schema, refs: frozenset[str]) -> Schema:
        """What is asked of keys, with references followed and values listed where they can be."""
        settled = settle(names, self._document, refs)
        if settled.repeat or isinstance(settled.schema, bool):
            return settled.schema
        found = self._closed(settled.schema, settled.refs)
        return settled.schema if found is None else {"enum": found[0]}

    def _closed(self, schema: SchemaDict, refs: frozenset[str]) -> tuple[list[JsonValue], str] | None:
        """The legal values of a settled schema and why they can be listed; None when they cannot."""
        key = ("closed", id(schema), refs)
        known = self._document.kept.get(key)
        if known is not None and known[0] is schema:
            return known[1]
        found = self._listed(schema, refs)
        self._document.kept[key] = schema, found
        return found

    def _listed(self, schema: SchemaDict, refs: frozenset[str]) -> tuple[list[JsonValue], str] | None:
        found = candidates(schema)
        own = found is not None
        union = union_of(schema)
        if found is None and union:
            arms = [self._closed_arm(arm, refs) for arm in schema[union]]
            if any(arm is None for arm in arms):
                return None
            values = [value for arm in arms for value in arm or ()]
            if union == "anyOf" or all_differ(values):
                schema = {key: item for key, item in schema.items() if key != union}
            found = values, "enum"
        if found is None:
            return None
        self._document.work.spend(len(found[0]) // 8)
        values = legal(found[0], schema, self._document.closed, own=own)
        return values, f"enum of {len(values)}" if found[1] == "enum" else found[1]

    def _closed_arm(self, arm: Schema, refs: frozenset[str]) -> list[JsonValue] | None:
        settled = settle(arm, self._document, refs)
        if settled.repeat or settled.schema is True:
            return None
        if settled.schema is False:
            return []
        found = self._closed(settled.schema, settled.refs)
        return found[0] if found else None

    def _union(self, schema: SchemaDict, union: str, spot: _Spot) -> Node | None:
        common = _without_annotations(schema)
        arms: list[Schema] = distinct(schema[union])
        del common[union]
        node = self._arms([{"allOf": [common, arm]} if common else arm for arm in arms], schema, spot, union)
        num_arms = len(schema[union])
        if union == "oneOf" and num_arms > 1 and not is_disjoint(node, num_arms):
            self._relax(spot, "oneOf: that no second arm matches is left to validation")
            if isinstance(node, Union):
                return replace(node, rules=self._rules({"oneOf": schema[union]}))
        return node

    def _arms(self, arms: list[Schema], schema: SchemaDict, spot: _Spot, why: str) -> Node | None:
        at = replace(spot, depth=spot.depth + 1)
        made: list[tuple[Node, str]] = []
        for arm in arms:
            node = self._node(arm, at)
            self._document.work.spend(len(made) // 8)  # it is compared with each of them
            if node is not None and all(node != other for other, _ in made):
                made.append((node, settle(arm, self._document, spot.refs).title))
        if len(made) < 2:
            return made[0][0] if made else None
        labels, discriminator = label_arms(made, schema)
        return Union(
            path=spot.path,
            arms=tuple(node for node, _ in made),
            labels=labels,
            discriminator=discriminator,
            description=spot.description,
            why=f"{why} of {len(made)}",
        )

    def _array(self, schema: SchemaDict, spot: _Spot) -> Node | None:
        """A list of closed items as choices where it is short; a free leaf otherwise."""
        least, most, unique = bounds_of(schema)
        rules = self._rules({key: schema[key] for key in RULES_OF_LISTS if key in schema})
        item = self._node(schema["items"], spot.item(0))
        if (
            isinstance(item, Choice)
            and unique
            and least <= len(item.options) <= MAX_SUBSET
            and all_differ(item.options)
        ):
            return Subset(
                path=spot.path,
                options=item.options,
                min_items=least,
                max_items=len(item.options) if most is None else min(most, len(item.options)),
                description=spot.description,
                why=f"any of {len(item.options)}",
                rules=rules,
            )
        if item is None and least > 0:
            return self._impossible(spot, "it needs items, and these have no legal value")
        if item is None or most is None or not 0 < most <= MAX_REPEAT or least > most or has_free(item):
            return self._free(schema, spot, say_free(schema))
        items = [self._node(schema["items"], spot.item(at)) for at in range(most)]
        return Repeat(
            path=spot.path,
            items=tuple(node for node in items if node is not None),
            min_items=least,
            description=spot.description,
            why=f"list of up to {most} closed items",
            rules=self._rules({"uniqueItems": True, **(rules or {})}) if unique else rules,
        )

    def _record(self, schema: SchemaDict, spot: _Spot) -> Node | None:
        required: list[str] = schema.get("required", [])
        rules = self._rules({key: schema[key] for key in LEFT_TO_VALIDATION if key in schema})
        ruled = mentioned(rules)
        fields: list[Field] = []
        names = dict.fromkeys([*schema.get("properties", {}), *required, *demanded(rules)])
        is_open = schema.get("additionalProperties") is not False or "patternProperties" in schema
        if is_open and len(names) < schema.get("minProperties", 0):
            return self._free({**schema, "required": list(schema.get("properties", {}))}, spot, "open map")
        for name in names:
            may_stand = ruled is not None and name not in ruled  # a rule may ask that it is left out
            field = self._field(name, asked_of(schema, name), name in required, spot, may_stand=may_stand)
            if field is not None:
                fields.append(field)
            elif name in required:
                return self._impossible(spot, f"{name!r} is required, and has no legal value")
        for keyword in LEFT_TO_VALIDATION:
            if keyword in schema:
                self._relax(spot, f"{keyword}: left to validation")
        parents = dependencies(schema, {field.name: asked_of(schema, field.name) for field in fields})
        linked = tuple(replace(field, depends_on=parents[field.name]) for field in fields)
        return Record(path=spot.path, fields=linked, description=spot.description, rules=rules)

    def _rules(self, schema: SchemaDict) -> SchemaDict | None:
        closed = self._document.closed(schema)
        return closed if isinstance(closed, dict) else None

    def _field(self, name: str, asked: Schema, required: bool, spot: _Spot, *, may_stand: bool) -> Field | None:
        node = self._node(asked, spot.below(name))
        if node is None:
            return None
        written = required or (may_stand and always_written(node, self._default(asked, spot)))
        return Field(name=name, node=node, required=written)

    def _default(self, schema: Schema, spot: _Spot) -> list[JsonValue]:
        settled = settle(schema, self._document, spot.refs).schema
        return [settled["default"]] if isinstance(settled, dict) and "default" in settled else []

    def _free(self, schema: Schema, spot: _Spot, why: str) -> Free | None:
        closed = with_presence_said(self._document.closed(schema))
        if closed is False:
            return self._impossible(spot, "no value is left for a part that it requires")
        return Free(path=spot.path, schema=closed, description=spot.description, why=why)

    def _impossible(self, spot: _Spot, why: str) -> None:
        self.impossible.append(Relaxation(pointer=pointer(spot.where), what=why))

    def _relax(self, spot: _Spot, what: str) -> None:
        self.relaxed.append(Relaxation(pointer=pointer(spot.where), what=what))


def _without_annotations(schema: SchemaDict) -> SchemaDict:
    places = ("$defs", "definitions")
    return {key: item for key, item in schema.items() if key not in places and not is_annotation(key)}
