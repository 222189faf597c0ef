"""The order in which a schema made from a type says its keywords: that of the listings which models were trained on.

Models read a tool's schema as text. Where a program makes one from a function, transformers' `get_json_schema` and the
examples of those who publish models among them, a type comes first and what it is for last; pydantic sorts by letters.
A schema that is given as one keeps the order that it has.
"""

from __future__ import annotations

from agentform.json_schema.keywords import Schema, SchemaDict
from agentform.json_schema.walk import map_subschemas

__all__ = ["in_reading_order"]

_FIRST = ("$ref", "title", "type", "const", "enum", "anyOf", "oneOf", "items", "properties", "required")
_LAST = ("description", "default", "examples", "$defs")
_RANKS = {name: rank for rank, name in enumerate(_FIRST)} | {name: len(_FIRST) + 1 + i for i, name in enumerate(_LAST)}


def in_reading_order(schema: SchemaDict) -> SchemaDict:
    """`schema` with the keywords of each subschema in that order; other keywords stand between, as they stood.

    What keywords hold, the names of properties among it, keeps its order.
    """

    def inner(_: object, item: Schema) -> Schema:
        return item if isinstance(item, bool) else in_reading_order(item)

    made = map_subschemas(schema, inner)
    return {key: made[key] for key in sorted(made, key=lambda key: _RANKS.get(key, len(_FIRST)))}
