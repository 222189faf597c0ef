"""Which keys may stand together, in words that grammars keep: one object for each way.

::

    oneOf: [required: [a], required: [b]]   ->   anyOf: [ {a!, b: false}, {a: false, b!} ]

Grammar engines pass over such rules, or let both arms of a `oneOf` hold. Forms solve them place by place; inside a
value that is written freely only its grammar can keep them.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from agentform.json_schema.keywords import Schema, SchemaDict
from agentform.json_schema.walk import map_subschemas, subschemas
from agentform.schema.partial import Members, Rules, Unknown, mentioned

__all__ = ["with_presence_said"]

_COUNTS = ("minProperties", "maxProperties")
_RULES = frozenset(
    ["allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentRequired", "dependentSchemas", *_COUNTS]
)
_MOST_KEYS = 6
_MOST_ARMS = 12
_MOST_TEXT = 40_000
"""Characters of all the objects that one becomes."""
_ANY = Unknown(frozenset(["null", "boolean", "number", "string", "array", "object"]))


@dataclass(frozen=True)
class _Standing:
    """Keys that are there and keys that are not; about others it says nothing."""

    there: frozenset[str]
    absent: frozenset[str]


def with_presence_said(schema: Schema) -> Schema:
    """A self-contained schema in which objects with rules over nothing but presence say each way to keep them.

    It accepts the same values. Objects with too many keys or ways, or with rules over values, stay as they are.
    """
    if isinstance(schema, bool) or not any(map(_is_candidate, _all_below(schema))):
        return schema
    return _said(schema, schema.get("$defs", {}))


def _all_below(schema: Schema) -> Iterator[Schema]:
    yield schema
    if isinstance(schema, dict):
        for _, item in subschemas(schema):
            yield from _all_below(item)


def _said(schema: Schema, definitions: SchemaDict) -> Schema:
    if isinstance(schema, bool):
        return schema
    made = map_subschemas(schema, lambda _, item: _said(item, definitions))
    ways = _ways(schema, definitions) if _is_candidate(schema) else []
    if not ways or len(ways) * len(json.dumps(schema)) > _MOST_TEXT:
        return made
    beside = {key: made.pop(key) for key in ("$defs", "definitions") if key in made}
    plain = {key: item for key, item in made.items() if key not in _RULES}
    arms = [_object(plain, way) for way in ways]
    return {**arms[0], **beside} if len(arms) == 1 else {**beside, "anyOf": arms}


def _is_candidate(schema: Schema) -> bool:
    return isinstance(schema, dict) and schema.get("type") == "object" and bool(_RULES & schema.keys())


def _ways(schema: SchemaDict, definitions: SchemaDict) -> list[_Standing]:
    """Every way to keep the rules; none where they forbid nothing, or ask for more than presence."""
    rules = {key: schema[key] for key in _RULES & schema.keys()}
    needed: list[str] = schema.get("required", [])
    names = _names(schema, rules)
    open_ = [name for name in names or () if name not in needed]
    if not 0 < len(open_) <= _MOST_KEYS:
        return []
    judge = Rules({**rules, "$defs": definitions})
    others = {name: _ANY for name in schema.get("properties", {}) if name not in needed and name not in open_}
    kept: list[_Standing] = []
    for taken in itertools.product((True, False), repeat=len(open_)):
        there = [name for name, is_there in zip(open_, taken, strict=True) if is_there]
        verdict = judge.verdict(Members(dict.fromkeys((*needed, *there), _ANY), others))
        if verdict is None:
            return []
        if verdict:
            kept.append(_Standing(frozenset(there), frozenset(open_) - frozenset(there)))
    return _joined(kept) if 0 < len(kept) < 2 ** len(open_) else []


def _names(schema: SchemaDict, rules: SchemaDict) -> list[str] | None:
    """The keys that the rules speak of, as far as they can be written; `None` where those cannot be listed."""
    is_closed = schema.get("additionalProperties") is False and "patternProperties" not in schema
    own: list[str] = list(schema.get("properties", {}))
    if any(key in rules for key in _COUNTS):
        return own if is_closed else None
    named = mentioned(rules)
    if named is None:
        return None
    return [name for name in own if name in named] + ([] if is_closed else sorted(named - {*own}))


def _joined(ways: Sequence[_Standing]) -> list[_Standing]:
    """Fewer ways that say the same: two that differ in one key alone leave it open."""
    found = list(ways)
    while pair := next(((a, b) for a, b in itertools.combinations(found, 2) if _differ_in_one(a, b)), None):
        found = [way for way in found if way not in pair]
        found.append(_Standing(pair[0].there & pair[1].there, pair[0].absent & pair[1].absent))
    return found if len(found) <= _MOST_ARMS else []


def _differ_in_one(first: _Standing, second: _Standing) -> bool:
    return len(first.there ^ second.there) == 1 and first.there ^ second.there == first.absent ^ second.absent


def _object(schema: SchemaDict, way: _Standing) -> SchemaDict:
    is_closed = schema.get("additionalProperties") is False and "patternProperties" not in schema
    members = {name: item for name, item in schema.get("properties", {}).items() if name not in way.absent}
    if not is_closed:
        members |= dict.fromkeys(sorted(way.absent), False)
    required = [*schema.get("required", []), *sorted(way.there)]
    return {**schema, "properties": members, "required": list(dict.fromkeys(required))}
