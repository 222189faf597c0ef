"""Sources of schemas: pydantic types and JSON Schema documents, loaded into targets that calls fill."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Flag
from typing import Any

from pydantic import TypeAdapter

from agentform.errors import UnsupportedSchema
from agentform.json_schema.keywords import Schema, SchemaDict
from agentform.json_schema.walk import map_subschemas
from agentform.schema.compile import compile_schema
from agentform.schema.draft import draft_of
from agentform.schema.form import Form, Path, Relaxation, pointer
from agentform.schema.json_text import plain, problems
from agentform.schema.jsonschema_keywords import is_regular_expression
from agentform.schema.pydantic_schema import pydantic_schema, written_schema
from agentform.schema.regex import PatternTooCostly
from agentform.schema.tolerance import tolerated
from agentform.schema.validate import PydanticValidator, SchemaValidator, Validator

__all__ = ["Target", "load", "load_adapter"]


@dataclass(frozen=True, kw_only=True)
class Target:
    """What a call fills: a form to decide on, and the validator that has the last word."""

    name: str
    description: str
    form: Form
    validator: Validator


def load(source: Any, *, name: str | None = None, lenient: bool = False) -> Target:
    """The target for a pydantic model, any type that pydantic's `TypeAdapter` takes, or a JSON Schema.

    With `lenient`, unknown keywords and patterns that cannot be matched in linear time are listed in `Form.relaxed`
    instead of refused.

    Examples:
        >>> target = load({"type": "object", "properties": {"on": {"type": "boolean"}}})
        >>> [violation.pointer for violation in target.validator.check({"on": "yes"})]
        ['/on']

    Raises:
        UnsupportedSchema: whatever is wrong with the source.
    """
    try:
        if isinstance(source, (Mapping, bool)):
            return _load_schema(source, name, lenient)
        return load_adapter(_adapter(source), name=name or _name_of(source), lenient=lenient)
    except RecursionError:
        raise UnsupportedSchema("it is nested too deeply") from None
    except PatternTooCostly as error:
        raise UnsupportedSchema(str(error)) from None


def load_adapter(
    adapter: TypeAdapter[Any],
    *,
    name: str,
    description: str | None = None,
    lenient: bool = False,
    titles: bool = True,
) -> Target:
    """The target for a pydantic type adapter; without `titles` its fields and root carry none.

    Raises:
        UnsupportedSchema: the schema uses something that agentform does not implement, or is not a schema.
    """
    schema, written = _pydantic_schema(adapter, titles)
    usable, bad = _without_bad_patterns(schema, ())
    said = description if description is not None else _text(_root(schema), "description")
    form = compile_schema(_without_bad_patterns(written, ())[0], name=name, description=said, lenient=lenient)
    form = replace(form, schema=schema, relaxed=form.relaxed + _dropped(bad, "left to pydantic"))
    return Target(name=name, description=said, form=form, validator=PydanticValidator(adapter, usable))


def _load_schema(source: Any, name: str | None, lenient: bool) -> Target:
    for path, reason in problems(source):
        raise UnsupportedSchema(reason, pointer=pointer(path))
    schema: Schema = plain(source)
    schema, remarks = tolerated(schema)
    draft = draft_of(schema)
    usable, bad = _without_bad_patterns(schema, ())
    if bad and not lenient:
        raise UnsupportedSchema("not a regular expression that is matched in linear time", pointer=pointer(bad[0]))
    name = name or _text(schema, "title") or "value"
    said = _text(schema, "description")
    form = compile_schema(usable, name=name, description=said, draft=draft, lenient=lenient)
    form = replace(form, schema=schema, relaxed=form.relaxed + _dropped(bad, "not checked"), remarks=remarks)
    return Target(name=name, description=said, form=form, validator=SchemaValidator(usable, draft))


def _adapter(source: Any) -> TypeAdapter[Any]:
    try:
        return TypeAdapter(source)
    except Exception as error:  # pydantic raises many things for what is not a type
        raise UnsupportedSchema(_reason(error)) from error


def _pydantic_schema(adapter: TypeAdapter[Any], titles: bool) -> tuple[SchemaDict, SchemaDict]:
    """What is shown and validated, and what is written by."""
    try:
        for kind in _flags(adapter.core_schema, set()):
            raise UnsupportedSchema(f"{kind.__name__} is a Flag, whose combinations JSON Schema cannot list")
        schema = pydantic_schema(adapter, titles=titles)
        written = written_schema(adapter, titles=titles)
    except UnsupportedSchema:
        raise
    except Exception as error:  # no JSON Schema, a forward reference that is undefined, a user's own hook
        raise UnsupportedSchema(_reason(error)) from error
    for made in () if titles else (schema, written):
        made.pop("title", None)
    return schema, written


def _flags(schema: Any, seen: set[int]) -> Iterator[type[Flag]]:
    """The Flag classes anywhere in a pydantic core schema."""
    if id(schema) in seen or not isinstance(schema, (dict, list, tuple)):
        return
    seen.add(id(schema))
    if isinstance(schema, dict):
        kind = schema.get("cls") if schema.get("type") == "enum" else None
        if isinstance(kind, type) and issubclass(kind, Flag):
            yield kind
    for item in schema.values() if isinstance(schema, dict) else schema:
        yield from _flags(item, seen)


def _without_bad_patterns(schema: Any, path: Path) -> tuple[Any, list[Path]]:
    """The schema without regular expressions that cannot be matched in linear time, and where they stood.

    Pydantic has its own engine for patterns and enforces them itself, so dropping them there loses nothing.
    """
    if not isinstance(schema, dict):
        return schema, []
    bad: list[Path] = []

    def change(step: Path, item: Any) -> Any:
        usable, below = _without_bad_patterns(item, path + step)
        bad.extend(below)
        return usable

    made = map_subschemas(schema, change)
    if isinstance(made.get("pattern"), str) and not is_regular_expression(made["pattern"]):
        del made["pattern"]
        bad.append((*path, "pattern"))
    by_name = made.get("patternProperties", {})
    if wrong := [pattern for pattern in by_name if not is_regular_expression(pattern)]:
        made["patternProperties"] = {key: item for key, item in by_name.items() if key not in wrong}
        made.pop("additionalProperties", None)  # it would now forbid what the dropped patterns allowed
        bad.extend((*path, "patternProperties", pattern) for pattern in wrong)
    return made, bad


def _dropped(paths: Iterable[Path], what: str) -> tuple[Relaxation, ...]:
    return tuple(
        Relaxation(pointer=pointer(path), what=f"a regular expression that cannot be matched in linear time: {what}")
        for path in paths
    )


def _root(schema: SchemaDict) -> Schema:
    """The schema of the type itself, which pydantic puts among the definitions where it is recursive."""
    found = re.fullmatch(r"#/\$defs/(.+)", str(schema.get("$ref", "")))
    return schema.get("$defs", {}).get(found[1], schema) if found else schema


def _text(schema: Schema, keyword: str) -> str:
    text = schema.get(keyword, "") if isinstance(schema, dict) else ""
    return inspect.cleandoc(text) if isinstance(text, str) else ""


def _name_of(source: Any) -> str:
    return getattr(source, "__name__", None) or re.sub(r"\W+", "_", str(source)).strip("_")[:64]


def _reason(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]
