"""Which draft of JSON Schema a document is written in."""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from typing import Any, Literal, TypeAlias

import attrs

from agentform.errors import UnsupportedSchema
from agentform.json_schema.keywords import Schema, SchemaDict
from agentform.json_schema.walk import map_subschemas, subschemas
from agentform.schema.form import pointer
from agentform.schema.jsonschema_keywords import OWN_KEYWORDS
from agentform.schema.jsonschema_library import jsonschema_library

__all__ = [
    "JsonSchemaDraft",
    "draft_of",
    "newer_than",
    "own_validator_class",
    "schema_fault",
    "specification_of",
    "validator_class",
]

JsonSchemaDraft: TypeAlias = Literal["4", "6", "7", "2019-09", "2020-12"]

_DRAFTS: dict[str, JsonSchemaDraft] = {
    "http://json-schema.org/draft-04/schema": "4",
    "http://json-schema.org/draft-06/schema": "6",
    "http://json-schema.org/draft-07/schema": "7",
    "https://json-schema.org/draft/2019-09/schema": "2019-09",
    "https://json-schema.org/draft/2020-12/schema": "2020-12",
}
_ORDER: tuple[JsonSchemaDraft, ...] = ("4", "6", "7", "2019-09", "2020-12")
_SINCE: dict[str, JsonSchemaDraft] = {
    "const": "6",
    "contains": "6",
    "propertyNames": "6",
    "if": "7",
    "then": "7",
    "else": "7",
    "dependentRequired": "2019-09",
    "dependentSchemas": "2019-09",
    "minContains": "2019-09",
    "maxContains": "2019-09",
    "unevaluatedItems": "2019-09",
    "unevaluatedProperties": "2019-09",
    "prefixItems": "2020-12",
}
_UNSUPPORTED = frozenset({"draft-00", "draft-01", "draft-02", "draft-03"})


def draft_of(schema: Schema) -> JsonSchemaDraft:
    """The draft that `$schema` names; without one, the newest draft in which the schema is well-formed.

    Raises:
        UnsupportedSchema: for drafts before 4, and for a schema that is well-formed in no draft.
    """
    named = str(schema.get("$schema", "")) if isinstance(schema, dict) else ""
    if any(old in named for old in _UNSUPPORTED):
        raise UnsupportedSchema(f"{named} is not supported; draft 4 and later are", pointer="/$schema")
    draft = _DRAFTS.get(named.rstrip("#").replace("http://json-schema.org/draft/", "https://json-schema.org/draft/"))
    possible: list[JsonSchemaDraft] = [draft] if draft else _guesses(schema)
    for candidate in possible:
        if schema_fault(schema, candidate) is None:
            return candidate
    where, reason = schema_fault(schema, draft or "2020-12") or ("", "not a schema")
    raise UnsupportedSchema(reason, pointer=where)


def validator_class(draft: JsonSchemaDraft) -> Any:
    """The `jsonschema` class that validates by the draft."""
    jsonschema = jsonschema_library()
    return {
        "4": jsonschema.Draft4Validator,
        "6": jsonschema.Draft6Validator,
        "7": jsonschema.Draft7Validator,
        "2019-09": jsonschema.Draft201909Validator,
        "2020-12": jsonschema.Draft202012Validator,
    }[draft]


@cache
def own_validator_class(draft: JsonSchemaDraft) -> Any:
    """The class with this package's own keywords; unlike the library's it keeps them below a nested `$schema`."""
    jsonschema = jsonschema_library()
    kind = jsonschema.validators.extend(validator_class(draft), validators=OWN_KEYWORDS)
    names = [(field.name, field.alias) for field in attrs.fields(kind) if field.init]

    def evolve(self: Any, **changes: Any) -> Any:
        return kind(**{given: changes.get(given, getattr(self, name)) for name, given in names})

    kind.evolve = evolve
    return kind


def specification_of(draft: JsonSchemaDraft) -> Any:
    """How the `referencing` library reads a document of the draft that does not name one."""
    from referencing.jsonschema import specification_with

    return specification_with(next(uri for uri, named in _DRAFTS.items() if named == draft))


def schema_fault(schema: Schema, draft: JsonSchemaDraft) -> tuple[str, str] | None:
    """Pointer and reason of the first thing that makes the schema malformed in the draft."""
    return _fault(schema, draft) if _fault(_abridged(schema), draft) else None


def _fault(schema: Schema, draft: JsonSchemaDraft) -> tuple[str, str] | None:
    jsonschema = jsonschema_library()
    try:
        validator_class(draft).check_schema(schema, format_checker=jsonschema.FormatChecker(formats=()))
    except jsonschema.SchemaError as error:
        return pointer(tuple(str(key) for key in error.absolute_path)), error.message[:300]
    return None


def _abridged(schema: Schema) -> Schema:
    """The schema with one `true` for all labelled constants of a union, and one value for those of an enum.

    They are well-formed but slow to check.
    """
    if isinstance(schema, bool):
        return schema
    made: SchemaDict = dict(schema)
    if isinstance(listed := made.get("enum"), list):
        made["enum"] = listed[:1]
    for keyword in ("oneOf", "anyOf"):
        if isinstance(arms := made.get(keyword), list) and any(map(_is_labelled_constant, arms)):
            made[keyword] = [True, *(arm for arm in arms if not _is_labelled_constant(arm))]
    return map_subschemas(made, lambda _, item: _abridged(item))


def _is_labelled_constant(schema: Any) -> bool:
    return isinstance(schema, dict) and all(
        key == "const" or (key in ("title", "description") and isinstance(item, str)) for key, item in schema.items()
    )


def newer_than(draft: JsonSchemaDraft) -> frozenset[str]:
    """Keywords that came after the draft, and that a schema of that draft therefore does not mean."""
    return frozenset(keyword for keyword, since in _SINCE.items() if _ORDER.index(since) > _ORDER.index(draft))


def _guesses(schema: Schema) -> list[JsonSchemaDraft]:
    # `dependencies` has no meaning after draft 7, so whoever writes it means an older draft
    drafts: tuple[JsonSchemaDraft, ...] = ("2020-12", "7", "4")
    if _uses(schema, {"dependencies"}):
        drafts = ("7", "2020-12", "4")
    return [draft for draft in drafts if not _uses(schema, newer_than(draft))]


def _uses(schema: Any, keywords: Collection[str]) -> bool:
    if not isinstance(schema, dict):
        return False
    known: SchemaDict = schema
    return any(key in keywords for key in known) or any(_uses(item, keywords) for _, item in subschemas(known))
