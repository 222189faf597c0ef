"""What a schema says of a value that is known only in part: it holds, it fails, or that is still open.

Three-valued, and sound: `True` and `False` are said only where every completion of the value agrees. So a search over
what is still open can leave whole branches out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from agentform.json_schema.keywords import is_annotation
from agentform.json_schema.walk import subschemas
from agentform.messages import JsonValue
from agentform.schema.jsonschema_keywords import additional_keys, equality
from agentform.schema.regex import PatternTooCostly, compiled
from agentform.schema.validate import SchemaValidator

__all__ = ["Items", "Known", "KnownPart", "Members", "Rules", "Unknown", "Verdict", "demanded", "mentioned"]

Verdict: TypeAlias = bool | None


@dataclass(frozen=True, eq=False)
class Known:
    """A value that is decided."""

    value: JsonValue


@dataclass(frozen=True, eq=False)
class Unknown:
    """A value that will be there, of one of these JSON types; `number` covers integers."""

    types: frozenset[str]


@dataclass(frozen=True, eq=False)
class Members:
    """An object: keys that are there, and keys that may be. Others will not be."""

    there: Mapping[str, KnownPart]
    maybe: Mapping[str, KnownPart] = field(default_factory=dict[str, "KnownPart"])


@dataclass(frozen=True, eq=False)
class Items:
    """A list: its first items, and how many more there may be."""

    items: tuple[KnownPart, ...]
    more: int = 0


KnownPart: TypeAlias = Known | Unknown | Members | Items


class Rules:
    """A self-contained schema, in the words of draft 2020-12, to be asked about parts."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._schema = schema
        self._definitions: Mapping[str, Any] = schema.get("$defs", {})
        self._validators: dict[int, SchemaValidator] = {}

    def verdict(self, part: KnownPart) -> Verdict:
        """Whether every completion of the part is valid, none is, or neither can be said."""
        try:
            return _Asking(self).of(self._schema, part)
        except (RecursionError, PatternTooCostly):
            return None

    def definition(self, ref: str) -> Any:
        """What a reference of the form `#/$defs/name` points at."""
        return self._definitions.get(ref.rpartition("/")[2], True)

    def is_valid(self, schema: Mapping[str, Any], value: JsonValue) -> bool:
        """What the whole validator says of a known value and one of the subschemas."""
        if id(schema) not in self._validators:
            whole = {**schema, "$defs": self._definitions} if self._definitions else schema
            self._validators[id(schema)] = SchemaValidator(dict(whole))
        return not self._validators[id(schema)].check(value)


class _Asking:
    """One question. What was asked of the same schema and part is not asked again, so that the time is linear."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._known: dict[tuple[int, int], Verdict] = {}

    def of(self, schema: Any, part: KnownPart) -> Verdict:
        if isinstance(schema, bool):
            return schema
        key = (id(schema), id(part))
        if key not in self._known:
            self._known[key] = None  # a schema that asks itself says nothing
            self._known[key] = self._schema(schema, part)
        return self._known[key]

    def _schema(self, schema: Mapping[str, Any], part: KnownPart) -> Verdict:
        if isinstance(part, Known):
            return self._rules.is_valid(schema, part.value)
        return _all(self._keyword(keyword, value, schema, part) for keyword, value in schema.items())

    def _keyword(self, keyword: str, value: Any, schema: Mapping[str, Any], part: KnownPart) -> Verdict:
        match keyword:
            case "allOf":
                return _all(self.of(arm, part) for arm in value)
            case "anyOf":
                return _any(self.of(arm, part) for arm in value)
            case "oneOf":
                return _one([self.of(arm, part) for arm in value])
            case "not":
                return _not(self.of(value, part))
            case "if":
                return self._condition(self.of(value, part), schema, part)
            case "$ref":
                return self.of(self._rules.definition(value), part)
            case "type":
                return _of_type([value] if isinstance(value, str) else value, part)
            case "then" | "else" | "$defs":
                return True
            case _ if is_annotation(keyword):
                return True
            case _ if isinstance(part, Members):
                return self._of_members(keyword, value, schema, part)
            case _ if isinstance(part, Items):
                return self._of_items(keyword, value, schema, part)
            case _:
                return None

    def _condition(self, holds: Verdict, schema: Mapping[str, Any], part: KnownPart) -> Verdict:
        then, otherwise = self.of(schema.get("then", True), part), self.of(schema.get("else", True), part)
        if holds is None:
            return then if then == otherwise else None
        return then if holds else otherwise

    def _of_members(self, keyword: str, value: Any, schema: Mapping[str, Any], part: Members) -> Verdict:
        match keyword:
            case "required":
                return _all(_is_there(name, part) for name in value)
            case "minProperties":
                return _at_least(value, len(part.there), len(part.maybe))
            case "maxProperties":
                return _at_most(value, len(part.there), len(part.maybe))
            case "properties":
                return _all(self._member(name, item, part) for name, item in value.items())
            case "patternProperties":
                found = ((n, item) for p, item in value.items() for n in _names(part) if compiled(p).search(n))
                return _all(self._member(name, item, part) for name, item in found)
            case "additionalProperties":
                return _all(self._member(name, value, part) for name in additional_keys(_names(part), schema))
            case "propertyNames":
                return _all(self._name(name, value, part) for name in _names(part))
            case "dependentRequired":
                pairs = (
                    (_is_there(name, part), [_is_there(n, part) for n in needed]) for name, needed in value.items()
                )
                return _all(_implies(there, _all(needed)) for there, needed in pairs)
            case "dependentSchemas":
                return _all(_implies(_is_there(name, part), self.of(item, part)) for name, item in value.items())
            case _:
                return True if keyword in _OF_OTHERS else None

    def _member(self, name: str, schema: Any, part: Members) -> Verdict:
        if name in part.there:
            return self.of(schema, part.there[name])
        return True if name not in part.maybe or self.of(schema, part.maybe[name]) else None

    def _name(self, name: str, schema: Any, part: Members) -> Verdict:
        holds = schema if isinstance(schema, bool) else self._rules.is_valid(schema, name)
        return True if holds else (False if name in part.there else None)

    def _of_items(self, keyword: str, value: Any, schema: Mapping[str, Any], part: Items) -> Verdict:
        match keyword:
            case "minItems":
                return _at_least(value, len(part.items), part.more)
            case "maxItems":
                return _at_most(value, len(part.items), part.more)
            case "prefixItems":
                found = [self.of(s, item) for s, item in zip(value, part.items, strict=False)]
                return _all([*found, True if part.more == 0 or len(part.items) >= len(value) else None])
            case "items":
                after = part.items[len(schema.get("prefixItems", ())) :]
                return _all(
                    [*(self.of(value, item) for item in after), None if part.more and value is not True else True]
                )
            case "contains":
                return self._contains(value, schema, part)
            case "uniqueItems":
                return _all_differ(part) if value else True
            case _:
                return True if keyword in _OF_OTHERS or keyword in ("minContains", "maxContains") else None

    def _contains(self, wanted: Any, schema: Mapping[str, Any], part: Items) -> Verdict:
        found = [self.of(wanted, item) for item in part.items]
        sure, open_ = found.count(True), found.count(None) + part.more
        most = schema.get("maxContains")
        enough = _at_least(schema.get("minContains", 1), sure, open_)
        return _all([enough, True if most is None else _at_most(most, sure, open_)])


_OF_OTHERS = frozenset(
    [
        *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
        *("minLength", "maxLength", "pattern", "format"),
    ]
)
"""Keywords that neither objects nor lists heed."""
_OF_ANY = frozenset(
    [
        *("minProperties", "maxProperties", "propertyNames"),
        *("patternProperties", "additionalProperties", "unevaluatedProperties"),
    ]
)
"""Keywords that heed every property of an object."""

_ELSEWHERE = frozenset(["properties", "patternProperties", "additionalProperties", "propertyNames", "not", "$defs"])
"""Keywords whose subschemas are of other values, or say what is not wanted."""


def _all(verdicts: Iterable[Verdict]) -> Verdict:
    found: Verdict = True
    for verdict in verdicts:
        if verdict is False:
            return False
        found = found if verdict else None
    return found


def _any(verdicts: Iterable[Verdict]) -> Verdict:
    return _not(_all(_not(verdict) for verdict in verdicts))


def _not(verdict: Verdict) -> Verdict:
    return None if verdict is None else not verdict


def _one(verdicts: list[Verdict]) -> Verdict:
    if verdicts.count(True) > 1 or not any(verdict is not False for verdict in verdicts):
        return False
    return None if None in verdicts else True


def _implies(condition: Verdict, consequence: Verdict) -> Verdict:
    return _any([_not(condition), consequence])


def _at_least(least: float, sure: int, more: int) -> Verdict:
    return True if sure >= least else (False if sure + more < least else None)


def _at_most(most: float, sure: int, more: int) -> Verdict:
    return False if sure > most else (True if sure + more <= most else None)


def _is_there(name: str, part: Members) -> Verdict:
    return True if name in part.there else (None if name in part.maybe else False)


def _names(part: Members) -> Iterator[str]:
    yield from part.there
    yield from part.maybe


def _of_type(types: Iterable[str], part: KnownPart) -> Verdict:
    own = {"number" if kind == "integer" else kind for kind in types}
    kinds = part.types if isinstance(part, Unknown) else {"object" if isinstance(part, Members) else "array"}
    if not own & kinds:
        return False
    return True if kinds <= own and "integer" not in types else None


def _all_differ(part: Items) -> Verdict:
    values = [equality(item.value) for item in part.items if isinstance(item, Known)]
    if len(values) > len(set(values)):
        return False
    return True if len(values) == len(part.items) and not part.more else None


def mentioned(schema: Any) -> frozenset[str] | None:
    """Names of the properties that an object's rules speak of, at any depth; `None` when they speak of any."""
    if not isinstance(schema, Mapping):
        return frozenset()
    known: dict[str, Any] = dict(schema)
    if _OF_ANY & known.keys():
        return None
    names = {*known.get("required", ()), *known.get("properties", {}), *known.get("dependentSchemas", {})}
    for name, needed in known.get("dependentRequired", {}).items():
        names |= {name, *needed}
    below = [mentioned(item) for path, item in subschemas(known) if path[0] != "properties"]
    below += [mentioned(item) for item in known.get("properties", {}).values()]
    return None if None in below else frozenset(names).union(*(found for found in below if found is not None))


def demanded(schema: Any) -> list[str]:
    """Names of the properties that an object's rules may require."""
    if not isinstance(schema, Mapping):
        return []
    known: dict[str, Any] = dict(schema)
    names = [*known.get("required", ()), *(n for needed in known.get("dependentRequired", {}).values() for n in needed)]
    below = (item for path, item in subschemas(known) if path[0] not in _ELSEWHERE)
    return list(dict.fromkeys([*names, *(name for item in below for name in demanded(item))]))
