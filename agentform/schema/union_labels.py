"""Names for the arms of a union, by which a model tells them apart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from agentform.json_schema.keywords import SchemaDict
from agentform.messages import JsonValue
from agentform.schema.closed_values import identity
from agentform.schema.form import Choice, Field, Fixed, Free, Node, Record, Repeat, Subset, Union
from agentform.schema.json_text import json_type

__all__ = ["json_types", "label_arms"]


def label_arms(arms: Sequence[tuple[Node, str]], schema: SchemaDict) -> tuple[tuple[str, ...], str | None]:
    """Unique labels for arms given with their titles, and the discriminator if the labels are its values."""
    nodes = [node for node, _ in arms]
    for name in _tag_names(nodes, schema):
        tags = [_tag(node, name) for node in nodes]
        if None not in tags and len({identity(tag.value) for tag in tags if tag}) == len(tags):
            values = [tag.value for tag in tags if tag]
            texts = [value for value in values if isinstance(value, str)]
            if len(texts) == len(values):
                return tuple(texts), name
            return tuple(_unique([identity(value) for value in values])), None
    named = [title or _type_word(node) for node, title in arms]
    told = [
        node.why if isinstance(node, Free) and node.why and named.count(label) > 1 else label
        for label, node in zip(named, nodes, strict=True)
    ]
    return tuple(_unique(told)), None


def json_types(node: Node) -> frozenset[str]:
    """The JSON types that values of the node can have; `number` covers integers."""
    match node:
        case Record():
            return frozenset({"object"})
        case Fixed():
            return frozenset({_type_of(node.value)})
        case Choice():
            return frozenset(_type_of(value) for value in node.options)
        case Subset() | Repeat():
            return frozenset({"array"})
        case Union():
            return frozenset(kind for arm in node.arms for kind in json_types(arm))
        case Free():
            kind = node.schema.get("type") if not isinstance(node.schema, bool) else None
            if not isinstance(kind, str):
                return frozenset({"null", "boolean", "number", "string", "array", "object"})
            return frozenset({"number" if kind == "integer" else kind})


def _tag_names(nodes: Sequence[Node], schema: SchemaDict) -> Iterator[str]:
    told = schema.get("discriminator")
    if isinstance(told, dict) and isinstance(told.get("propertyName"), str):
        yield told["propertyName"]
    first = nodes[0]
    if isinstance(first, Record):
        yield from (field.name for field in first.fields)


def _tag(node: Node, name: str) -> Fixed | None:
    fields: tuple[Field, ...] = node.fields if isinstance(node, Record) else ()
    field = next((field for field in fields if field.name == name and field.required), None)
    return field.node if field and isinstance(field.node, Fixed) else None


def _type_word(node: Node) -> str:
    if isinstance(node, Free):
        kind = node.schema.get("type") if not isinstance(node.schema, bool) else None
        return kind if isinstance(kind, str) else "any"
    kinds = json_types(node)
    return next(iter(kinds)) if len(kinds) == 1 else "enum" if isinstance(node, Choice) else "any"


def _type_of(value: JsonValue) -> str:
    kind = json_type(value)
    return "number" if kind == "integer" else kind


def _unique(labels: Sequence[str]) -> list[str]:
    made: dict[str, None] = {}
    counts: dict[str, int] = {}
    for label in labels:
        name = label
        while name in made:
            counts[label] = counts.get(label, 1) + 1
            name = f"{label} {counts[label]}"
        made[name] = None
    return list(made)
