"""Which keys and listed values may stand together, in words that grammars keep: one object for each way.

::

    oneOf: [required: [a], required: [b]]             ->   anyOf: [ {a!, b: false}, {a: false, b!} ]
    if: {kind: const 1}, then: {required: [a]}        ->   anyOf: [ {kind: enum [1], a!}, {kind: enum [2, 3]} ]

Grammar engines pass over such rules, or let both arms of a `oneOf` hold. Forms solve them place by place; inside a
value that is written freely only its grammar can keep them.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from agentform.json_schema.keywords import Schema, SchemaDict
from agentform.json_schema.walk import map_subschemas, subschemas
from agentform.schema.closed_values import candidates, legal, types_of
from agentform.schema.impossible import requires_the_impossible, why_impossible
from agentform.schema.partial import Known, Members, Rules, Unknown, mentioned

__all__ = ["with_presence_said"]

_COUNTS = ("minProperties", "maxProperties")
_RULES = frozenset(
    ["allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentRequired", "dependentSchemas", *_COUNTS]
)
_MOST_STATES = 128
"""Ways to be there or not, of all keys together."""
_MOST_VALUES = 16
_MOST_ARMS = 12
_MOST_TEXT = 40_000
"""Characters of all the objects that one becomes."""
_ANY = Unknown(frozenset(["null", "boolean", "number", "string", "array", "object"]))


@dataclass(frozen=True)
class _Key:
    """A key that rules speak of, with what may stand there: a few values, or one that is not known."""

    name: str
    options: tuple[Known | Unknown, ...]
    is_needed: bool

    @property
    def states(self) -> range:
        """0 for a key that is not there, then a number for each option."""
        return range(1 if self.is_needed else 0, len(self.options) + 1)


_Standing: TypeAlias = "tuple[frozenset[int], ...]"
"""For each key the states that it may be in."""


def with_presence_said(schema: Schema) -> Schema:
    """A self-contained schema in which objects with rules over presence and listed values say each way to keep them.

    It accepts the same values. Objects with too many keys or ways, or with rules over values that are not listed, stay
    as they are; what no value satisfies is `False`.
    """
    if isinstance(schema, bool) or not any(_is_candidate(part) or why_impossible(part) for part in _all_below(schema)):
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
    if why_impossible(schema):
        return False
    made = map_subschemas(schema, lambda _, item: _said(item, definitions))
    if requires_the_impossible(made):
        return False
    keys = _keys(schema, definitions) if _is_candidate(schema) else []
    ways = _ways(schema, definitions, keys) if keys else []
    if not ways or len(ways) * len(json.dumps(schema)) > _MOST_TEXT:
        return made
    beside = {key: made.pop(key) for key in ("$defs", "definitions") if key in made}
    plain = {key: item for key, item in made.items() if key not in _RULES}
    arms = [_object(plain, keys, way) for way in ways]
    return {**arms[0], **beside} if len(arms) == 1 else {**beside, "anyOf": arms}


def _is_candidate(schema: Schema) -> bool:
    return isinstance(schema, dict) and schema.get("type") == "object" and bool(_RULES & schema.keys())


def _keys(schema: SchemaDict, definitions: SchemaDict) -> list[_Key]:
    """The keys that the rules speak of; none where there are too many, or they cannot be listed."""
    rules = {key: schema[key] for key in _RULES & schema.keys()}
    needed: list[str] = schema.get("required", [])
    valued = _valued(rules)
    members: SchemaDict = schema.get("properties", {})
    keys = [
        _Key(name, _options(members.get(name, True), definitions, listed=name in valued), name in needed)
        for name in _names(schema, rules) or ()
    ]
    keys = [key for key in keys if len(key.states) > 1]
    return keys if math.prod(len(key.states) for key in keys) <= _MOST_STATES else []


def _ways(schema: SchemaDict, definitions: SchemaDict, keys: Sequence[_Key]) -> list[_Standing]:
    """Every way to keep the rules; none where they forbid nothing, or ask for more than presence and listed values."""
    judge = Rules({**{key: schema[key] for key in _RULES & schema.keys()}, "$defs": definitions})
    members: SchemaDict = schema.get("properties", {})
    named = {key.name for key in keys}
    fixed = {name: _unknown(members.get(name, True)) for name in schema.get("required", []) if name not in named}
    others = {name: _ANY for name in members if name not in fixed and name not in named}
    kept: list[_Standing] = []
    states = list(itertools.product(*(key.states for key in keys)))
    for state in states:
        there = {key.name: key.options[at - 1] for key, at in zip(keys, state, strict=True) if at}
        verdict = judge.verdict(Members({**fixed, **there}, others))
        if verdict is None:
            return []
        if verdict:
            kept.append(tuple(frozenset([at]) for at in state))
    return _joined(kept) if 0 < len(kept) < len(states) else []


def _valued(rules: Any) -> frozenset[str]:
    """Names of the properties whose values the rules speak of."""
    if not isinstance(rules, dict):
        return frozenset()
    known: SchemaDict = rules
    return frozenset(known.get("properties", {})).union(*(_valued(item) for _, item in subschemas(known)))


def _options(schema: Schema, definitions: SchemaDict, *, listed: bool) -> tuple[Known | Unknown, ...]:
    """The values of a property, where they are asked for and few; else one that is not known."""
    if isinstance(schema, dict) and "$ref" in schema and schema.keys() == {"$ref"}:
        schema = definitions.get(schema["$ref"].rpartition("/")[2], True)
    found = candidates(schema) if listed and isinstance(schema, dict) else None
    if found is None or isinstance(schema, bool) or not 0 < len(found[0]) <= _MOST_VALUES:
        return (_unknown(schema),)
    values = legal(found[0], schema, lambda part: part, own=True) if "$ref" not in str(schema) else []
    return tuple(Known(value) for value in values) or (_unknown(schema),)


def _unknown(schema: Schema) -> Unknown:
    types = types_of(schema) if isinstance(schema, dict) else []
    return Unknown(frozenset("number" if kind == "integer" else kind for kind in types)) if types else _ANY


def _names(schema: SchemaDict, rules: SchemaDict) -> list[str] | None:
    """The keys that the rules speak of, as far as they can be written; `None` where those cannot be listed."""
    is_closed = schema.get("additionalProperties") is False and "patternProperties" not in schema
    own: list[str] = [name for name, item in schema.get("properties", {}).items() if item is not False]
    if any(key in rules for key in _COUNTS):
        return own if is_closed else None
    named = mentioned(rules)
    if named is None:
        return None
    return [name for name in own if name in named] + ([] if is_closed else sorted(named - {*own}))


def _joined(ways: Sequence[_Standing]) -> list[_Standing]:
    """Fewer ways that say the same: two that differ in one key alone are one, with the states of both."""
    found = list(ways)
    while pair := next(((a, b) for a, b in itertools.combinations(found, 2) if _differ_in_one(a, b)), None):
        found = [way for way in found if way not in pair]
        found.append(tuple(one | other for one, other in zip(*pair, strict=True)))
    return found if len(found) <= _MOST_ARMS else []


def _differ_in_one(first: _Standing, second: _Standing) -> bool:
    return sum(one != other for one, other in zip(first, second, strict=True)) == 1


def _object(schema: SchemaDict, keys: Sequence[_Key], way: _Standing) -> SchemaDict:
    is_closed = schema.get("additionalProperties") is False and "patternProperties" not in schema
    absent = [key.name for key, states in zip(keys, way, strict=True) if states == {0}]
    members = {name: item for name, item in schema.get("properties", {}).items() if name not in absent}
    for key, states in zip(keys, way, strict=True):
        if 0 < len(states - {0}) < len(key.options):
            options = (key.options[at - 1] for at in sorted(states - {0}))
            members[key.name] = {"enum": [option.value for option in options if isinstance(option, Known)]}
    if not is_closed:
        members |= dict.fromkeys(sorted(absent), False)
    there = sorted(key.name for key, states in zip(keys, way, strict=True) if 0 not in states)
    required = [*schema.get("required", []), *there]
    return {**schema, "properties": members, "required": list(dict.fromkeys(required))}
