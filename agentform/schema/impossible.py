"""Schemas that no value satisfies, with the reason: bounds that cross, keys that are required and forbidden."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

from agentform.json_schema.keywords import Schema, SchemaDict
from agentform.schema.closed_values import types_of
from agentform.schema.partial import Members, Rules, Unknown, mentioned

__all__ = ["requires_the_impossible", "why_impossible"]

_COUNTED = {
    "string": (("minLength", "maxLength"),),
    "array": (("minItems", "maxItems"),),
    "object": (("minProperties", "maxProperties"),),
}
_OF_KEYS = frozenset(
    [
        *("allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentRequired", "dependentSchemas"),
        *("maxProperties", "propertyNames"),
    ]
)
_MOST_KEYS = 6
_ANY = Unknown(frozenset(["null", "boolean", "number", "string", "array", "object"]))


def why_impossible(schema: Schema, closed: Callable[[SchemaDict], Schema] = lambda schema: schema) -> str:
    """Why no value satisfies a schema of one type, or `""` where one may, as far as this sees.

    `closed` makes a part of the schema self-contained; by default it is so already.
    """
    if isinstance(schema, bool):
        return "" if schema else "it is `false`"
    if schema.get("not") in (True, {}):
        return "nothing is left between its bounds, or `not` forbids everything"
    types = types_of(schema)
    return next(_reasons(types[0], schema, closed), "") if len(types) == 1 else ""


def _reasons(kind: str, schema: SchemaDict, closed: Callable[[SchemaDict], Schema]) -> Iterator[str]:
    for least, most in _COUNTED.get(kind, ()):
        if schema.get(least, 0) > schema.get(most, math.inf):
            yield f"{least} {schema[least]} is more than {most} {schema[most]}"
    if kind in ("number", "integer"):
        yield from _crossing(schema)
    if kind == "array" and "contains" in schema and schema.get("minContains", 1) > schema.get("maxContains", math.inf):
        yield "minContains is more than maxContains"
    if kind == "object":
        yield from _keys(schema, closed)


def _crossing(schema: SchemaDict) -> Iterator[str]:
    for least, most in itertools.product(("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if least not in schema or most not in schema:
            continue
        low, high = schema[least], schema[most]
        if low > high or (low == high and "exclusive" in least + most):
            yield f"{least} {low} leaves nothing below {most} {high}"


def _keys(schema: SchemaDict, closed: Callable[[SchemaDict], Schema]) -> Iterator[str]:
    needed: list[str] = schema.get("required", [])
    is_closed = schema.get("additionalProperties") is False and "patternProperties" not in schema
    named = [name for name, item in schema.get("properties", {}).items() if item is not False]
    if is_closed and len(named) < schema.get("minProperties", 0):
        yield f"minProperties {schema['minProperties']} is more than the {len(named)} keys that there are"
    if len(needed) > schema.get("maxProperties", math.inf):
        yield f"{len(needed)} keys are required, and maxProperties is {schema['maxProperties']}"
    rules = {key: schema[key] for key in sorted(_OF_KEYS & schema.keys())}
    if rules and _forbids_all(rules, needed, named, is_closed=is_closed, closed=closed):
        said = f"required ({', '.join(map(repr, needed))})" if needed else "what is required"
        yield f"{said} and {', '.join(map(repr, rules))} contradict each other"


def _forbids_all(
    rules: SchemaDict, needed: list[str], named: list[str], *, is_closed: bool, closed: Callable[[SchemaDict], Schema]
) -> bool:
    """Whether the rules refuse every set of keys, whatever the values; other keys change nothing for them."""
    whole = closed(rules)
    spoken = mentioned({key: item for key, item in rules.items() if key not in ("propertyNames", "maxProperties")})
    if isinstance(whole, bool) or spoken is None or "$ref" in str(rules):
        return False
    open_ = sorted(name for name in spoken if name not in needed and (name in named or not is_closed))
    judge = Rules(whole)
    if judge.verdict(Members(dict.fromkeys(needed, _ANY), dict.fromkeys(open_, _ANY))) is False:
        return True
    if len(open_) > _MOST_KEYS:
        return False
    sets = itertools.chain.from_iterable(itertools.combinations(open_, size) for size in range(len(open_) + 1))
    return all(judge.verdict(Members(dict.fromkeys((*needed, *there), _ANY))) is False for there in sets)


def requires_the_impossible(schema: Any) -> bool:
    """Whether a schema whose parts are replaced by `false` where no value satisfies them asks for one of these."""
    if schema.get("type") == "array" and schema.get("items") is False and not schema.get("prefixItems"):
        return schema.get("minItems", 0) > 0
    members: dict[str, Schema] = schema.get("properties", {})
    return schema.get("type") == "object" and any(members.get(name) is False for name in schema.get("required", []))
