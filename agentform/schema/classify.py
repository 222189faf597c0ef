"""Small decisions on settled schemas and finished nodes that the compiler makes on its way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agentform.json_schema.keywords import SchemaDict, is_annotation
from agentform.messages import JsonValue
from agentform.schema.closed_values import identity, types_of
from agentform.schema.form import Choice, Fixed, Free, Leaf, Node, Path, Repeat, Subset, Union, leaves
from agentform.schema.union_labels import json_types

__all__ = [
    "MAX_REPEAT",
    "MAX_SUBSET",
    "RULES_OF_LISTS",
    "always_written",
    "bounds_of",
    "closed_leaf",
    "has_free",
    "is_disjoint",
    "is_plain_array",
    "is_record",
    "only_constrains",
    "union_of",
]

_SHAPE = frozenset(["properties", "$ref", "type", "anyOf", "oneOf", "allOf", "enum", "const", "items"])


def closed_leaf(values: Sequence[JsonValue], path: Path, description: str, why: str) -> Leaf | None:
    """The leaf of a place whose legal values are all listed; None when there are none."""
    if not values:
        return None
    if len(values) == 1:
        why = why if why in ("null", "const") else "const"
        return Fixed(path=path, value=values[0], description=description, why=why)
    return Choice(path=path, options=tuple(values), description=description, why=why)


def is_record(schema: SchemaDict) -> bool:
    """Whether a schema for objects names the properties, rather than leaving them open."""
    if types_of(schema) not in ([], ["object"]):
        return False
    if schema.get("properties") or _names_in_arms(schema):
        return True
    if schema.get("patternProperties") or schema.get("required") or schema.get("minProperties"):
        return False
    extra = schema.get("additionalProperties")
    if "properties" in schema:  # nothing named and nothing said of the rest: the usual way to write "no arguments"
        return extra in (None, False)
    return extra is False and types_of(schema) == ["object"]


def union_of(schema: SchemaDict) -> str | None:
    """The keyword of the schema that lists arms."""
    return next((keyword for keyword in ("oneOf", "anyOf") if keyword in schema), None)


def only_constrains(schema: SchemaDict, union: str) -> bool:
    """Whether the arms only restrict a record that is described beside them."""
    if not schema.get("properties") and not _names_in_arms(schema):
        return False
    arms: list[Any] = schema[union]
    return all(isinstance(arm, bool) or _SHAPE.isdisjoint(arm) for arm in arms)


def _names_in_arms(schema: SchemaDict) -> bool:
    """Whether an object that names no property has arms that do nothing but require some."""
    arms: list[Any] = [arm for union in ("oneOf", "anyOf") for arm in schema.get(union, ())]
    if types_of(schema) != ["object"] or schema.get("additionalProperties") is False:
        return False
    return bool(arms) and all(_only_requires(arm) for arm in arms)


def _only_requires(arm: Any) -> bool:
    return isinstance(arm, dict) and {key for key in arm if not is_annotation(key)} == {"required"}


def is_disjoint(node: Node | None, num_arms: int) -> bool:
    """Whether no value can belong to two of the arms that became the node, as far as types and tags tell."""
    if not isinstance(node, Union) or len(node.arms) < num_arms:
        return False
    if node.discriminator:
        return True
    kinds = [json_types(arm) for arm in node.arms]
    return sum(len(kind) for kind in kinds) == len(frozenset().union(*kinds))


def always_written(node: Node, default: Sequence[JsonValue]) -> bool:
    """Whether an optional property need not be left out, since one of its values means the same.

    `default` holds the property's default, or nothing where it has none.
    """
    absent = default[0] if default else None
    match node:
        case Fixed() | Choice():
            return _admits(node, absent)
        case Subset() | Repeat():
            return absent == [] and node.min_items == 0
        case Union():
            return absent is None and _admits(node, None)
        case _:
            return False


def _admits(node: Node, value: JsonValue) -> bool:
    match node:
        case Fixed():
            return identity(node.value) == identity(value)
        case Choice():
            return identity(value) in {identity(option) for option in node.options}
        case Union():
            return any(_admits(arm, value) for arm in node.arms)
        case _:
            return False


MAX_SUBSET = 64
"""The most options of which any may be in the list."""
MAX_REPEAT = 8
"""The most items of a list whose items are decided one after another."""

_PLAIN = frozenset(["type", "items", "minItems", "maxItems", "uniqueItems", "$defs", "definitions"])
RULES_OF_LISTS = ("contains", "minContains", "maxContains", "not", "if", "then", "else", "allOf")
"""Keywords that ask something of an array as a whole."""


def is_plain_array(schema: SchemaDict) -> bool:
    """Whether all items of an array have one schema; what is asked of them together comes on top of that."""
    return isinstance(schema.get("items"), dict) and all(
        key in _PLAIN or key in RULES_OF_LISTS or is_annotation(key) for key in schema
    )


def bounds_of(schema: SchemaDict) -> tuple[int, int | None, bool]:
    """The least and the most items, and whether they must be distinct."""
    most = schema.get("maxItems")
    return int(schema.get("minItems", 0)), None if most is None else int(most), schema.get("uniqueItems") is True


def has_free(node: Node) -> bool:
    """Whether a free leaf is in the node."""
    return any(isinstance(leaf, Free) for leaf in leaves(node))
