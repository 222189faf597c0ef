"""Arrays that can be chosen instead of written: distinct values of a small set, and short lists of closed items."""

from __future__ import annotations

from agentform.schema.form import Free, Node, leaves
from agentform.schema.keywords import SchemaDict, is_annotation

__all__ = ["MAX_REPEAT", "MAX_SUBSET", "bounds_of", "has_free", "is_plain_array"]

MAX_SUBSET = 64
"""The most options of which any may be in the list."""
MAX_REPEAT = 8
"""The most items of a list whose items are decided one after another."""

_PLAIN = frozenset(["type", "items", "minItems", "maxItems", "uniqueItems", "$defs", "definitions"])


def is_plain_array(schema: SchemaDict) -> bool:
    """Whether nothing but its items' schema, their number and their being distinct is asked of an array."""
    return isinstance(schema.get("items"), dict) and all(key in _PLAIN or is_annotation(key) for key in schema)


def bounds_of(schema: SchemaDict) -> tuple[int, int | None, bool]:
    """The least and the most items, and whether they must be distinct."""
    most = schema.get("maxItems")
    return int(schema.get("minItems", 0)), None if most is None else int(most), schema.get("uniqueItems") is True


def has_free(node: Node) -> bool:
    """Whether a free leaf is in the node."""
    return any(isinstance(leaf, Free) for leaf in leaves(node))
