"""The one place where values are validated, always against the true schema."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, Protocol

from pydantic import TypeAdapter, ValidationError

from agentform.errors import InvalidInput, Violation
from agentform.json_schema.keywords import Schema
from agentform.json_schema.walk import map_subschemas
from agentform.messages import JsonValue
from agentform.schema.draft import JsonSchemaDraft, own_validator_class, specification_of, validator_class
from agentform.schema.form import Path, pointer
from agentform.schema.json_text import dumps, plain, problems
from agentform.schema.jsonschema_keywords import is_regular_expression, literal_patterns
from agentform.schema.jsonschema_library import jsonschema_library
from agentform.schema.keywords import ASSERTIONS
from agentform.schema.regex import PatternTooCostly

__all__ = ["PydanticValidator", "SchemaValidator", "Validator"]

_MAX_REASON_CHARS = 300
_LONGEST_IRI = 1_000
_ASSERTIONS = "https://json-schema.org/draft/2020-12/vocab/validation"


class Validator(Protocol):
    """Decides whether a JSON value is legal, and makes of a legal one what the caller asked for."""

    def check(self, value: JsonValue) -> tuple[Violation, ...]:
        """Every way in which the value is illegal, at most one per place; empty for a legal value."""
        ...

    def build(self, value: JsonValue) -> Any:
        """The Python value that a legal JSON value stands for.

        Raises:
            InvalidInput: the value is illegal.
        """
        ...


class SchemaValidator:
    """Validates against a JSON Schema, formats asserted; what it builds is the plain JSON value."""

    def __init__(
        self,
        schema: Schema,
        draft: JsonSchemaDraft = "2020-12",
        *,
        lax_times: bool = False,
        assert_formats: bool = True,
        documents: Mapping[str, Any] | None = None,
    ) -> None:
        """`documents` are those that the schema may refer to, by URI; nothing is ever fetched.

        `lax_times` lets times leave out their offset; without `assert_formats` a format is only an annotation.
        """
        self._schema = schema
        self._draft: JsonSchemaDraft = draft
        self._lax_times = lax_times
        self._assert_formats = assert_formats
        self._documents = documents or {}

    def check(self, value: JsonValue) -> tuple[Violation, ...]:
        """See `Validator.check`; never raises."""
        return _not_json(value) or self.check_beside(value, ())

    def check_beside(self, value: JsonValue, known: Sequence[Violation]) -> tuple[Violation, ...]:
        """What the schema finds in a JSON value besides the violations that are known already.

        An arm of a union fails for what is wrong inside it, so a union around a known violation is not news.
        """
        seen = [violation.pointer for violation in known]
        try:
            known_value = plain(value)
            errors = [e for e in self._engine_for(known_value).iter_errors(known_value) if _is_news(e, seen)]
            found = _grouped(place for error in errors for place in _places(error))
        except (RecursionError, OverflowError, re.error, PatternTooCostly) as error:
            return (Violation(pointer="", reason=f"cannot be validated: {type(error).__name__}: {error}"),)
        return tuple(violation for violation in found if violation.pointer not in seen)

    def build(self, value: JsonValue) -> Any:
        """The value itself, as dicts and lists.

        Raises:
            InvalidInput: the value is illegal.
        """
        _raise(self.check(value))
        return plain(value)

    def _engine_for(self, value: Any) -> Any:
        """The engine with a memory for this value alone.

        The library looks for unevaluated keys with its own means, so the expressions are resolved before.
        """
        checker = copy.copy(self._engine.format_checker)
        checker.remembered = {}
        if not self._resolves_patterns:
            return self._engine.evolve(format_checker=checker)
        schema = _with_literal_patterns(self._engine.schema, sorted(_keys(value)))
        return self._engine.evolve(format_checker=checker, schema=schema)

    @cached_property
    def _resolves_patterns(self) -> bool:
        text = json.dumps(self._engine.schema, default=str)
        return '"patternProperties"' in text and '"unevaluatedProperties"' in text

    @cached_property
    def _engine(self) -> Any:
        kind = own_validator_class(self._draft)
        checker = _checker(lax_times=self._lax_times) if self._assert_formats else _checker_of_nothing()
        schema = _in_own_vocabulary(self._schema, self._documents)
        return kind(schema, format_checker=checker, registry=_registry(self._draft, self._documents))


class PydanticValidator:
    """Validates by pydantic's rules for JSON and by the JSON Schema: each stops what the other lets pass.

    Pydantic takes a date without an offset, which the JSON Schema format would not; there pydantic decides.
    """

    def __init__(self, adapter: TypeAdapter[Any], schema: Schema) -> None:
        self._adapter = adapter
        self._by_schema = SchemaValidator(schema, lax_times=True)

    def check(self, value: JsonValue) -> tuple[Violation, ...]:
        """See `Validator.check`; a validator that raises something of its own has refused the value too."""
        if found := _not_json(value):
            return found
        ours = self._by_pydantic(value)
        return ours + self._by_schema.check_beside(value, ours)

    def build(self, value: JsonValue) -> Any:
        """The pydantic instance or converted value.

        Raises:
            InvalidInput: the value is illegal.
        """
        _raise(self.check(value))
        return self._adapter.validate_json(dumps(value))

    def _by_pydantic(self, value: JsonValue) -> tuple[Violation, ...]:
        try:
            self._adapter.validate_json(dumps(value))
        except ValidationError as error:
            details = error.errors(include_url=False, include_context=False, include_input=False)
            return _grouped((_value_path(value, e["loc"], e["type"]), e["msg"]) for e in details)
        except Exception as error:
            return (Violation(pointer="", reason=f"{type(error).__name__}: {error}"[:_MAX_REASON_CHARS]),)
        return ()


def _not_json(value: Any) -> tuple[Violation, ...]:
    return _grouped(problems(value))


def _raise(violations: Sequence[Violation]) -> None:
    if violations:
        raise InvalidInput("; ".join(f"{v.pointer or '(whole)'}: {v.reason}" for v in violations))


def _grouped(found: Iterable[tuple[Path, str]]) -> tuple[Violation, ...]:
    """One violation per place; the arms of a union each say what they would have taken."""
    reasons: dict[Path, list[str]] = {}
    for path, reason in found:
        kept = reasons.setdefault(path, [])
        if reason not in kept:
            kept.append(reason)
    return tuple(
        Violation(pointer=pointer(path), reason=" or ".join(kept)[:_MAX_REASON_CHARS]) for path, kept in reasons.items()
    )


def _is_news(error: Any, pointers: Sequence[str]) -> bool:
    return not (error.context and _around(error, pointers))


def _around(error: Any, pointers: Iterable[str]) -> bool:
    above = pointer(_error_path(error))
    return any(below == above or below.startswith(above + "/") for below in pointers)


def _error_path(error: Any) -> Path:
    return tuple(str(key) for key in error.absolute_path)


def _places(error: Any) -> Iterator[tuple[Path, str]]:
    """Where a jsonschema error is: a missing or surplus key is named itself, not the object around it."""
    if arm := _meant_arm(error):
        for inner in arm:
            yield from _places(inner)
        return
    path = _error_path(error)
    keys: list[str] = []
    if error.validator == "required" and isinstance(error.instance, Mapping):
        keys = [key for key in error.validator_value if key not in error.instance and repr(key) in error.message]
    elif error.validator == "additionalProperties" and error.validator_value is False:
        known = error.schema.get("properties", {})
        keys = [key for key in error.instance if key not in known and repr(key) in error.message]
    if not keys:
        yield path, error.message
    for key in keys:
        yield (
            (*path, key),
            "is required" if error.validator == "required" else "is not a property of this object",
        )


def _meant_arm(error: Any) -> list[Any]:
    """The errors of the one arm of a union that the value was meant for, by its type and its constants."""
    arms: dict[Any, list[Any]] = {}
    for inner in error.context or ():
        arm = next(iter(inner.schema_path), None)  # nothing stands below a schema that is `false`
        arms.setdefault(arm, []).append(inner)
    fitting = [found for found in arms.values() if not any(_tells_apart(inner) for inner in found)]
    return fitting[0] if len(fitting) == 1 else []


def _tells_apart(error: Any) -> bool:
    return error.validator == "const" or (error.validator in ("type", "enum") and not error.relative_path)


def _value_path(value: Any, location: tuple[int | str, ...], kind: str) -> Path:
    """The part of a pydantic location that is in the value; names of union arms and functions are not."""
    path: Path = ()
    here = value
    for at, step in enumerate(location):
        if isinstance(here, Mapping) and str(step) in here:
            here = here[str(step)]
        elif isinstance(here, (list, tuple)) and isinstance(step, int) and 0 <= step < len(here):
            here = here[step]
        elif not (kind.startswith("missing") and at == len(location) - 1 and isinstance(here, Mapping)):
            continue
        path = (*path, str(step))
    return path


def _in_own_vocabulary(schema: Schema, documents: Mapping[str, Any]) -> Schema:
    """The schema without assertions, if the meta-schema that it names says that it does not use them."""
    named = schema.get("$schema") if isinstance(schema, dict) else None
    words = documents.get(str(named), {}).get("$vocabulary")
    return schema if words is None or _ASSERTIONS in words else _without_assertions(schema)


def _without_assertions(schema: Schema) -> Schema:
    if isinstance(schema, bool):
        return schema
    kept = {keyword: item for keyword, item in schema.items() if keyword not in ASSERTIONS}
    return map_subschemas(kept, lambda _, item: _without_assertions(item))


def _with_literal_patterns(schema: Any, keys: Sequence[str]) -> Any:
    if not isinstance(schema, dict):
        return schema
    made = map_subschemas(schema, lambda _, item: _with_literal_patterns(item, keys))
    if isinstance(made.get("patternProperties"), Mapping):
        made["patternProperties"] = literal_patterns(made["patternProperties"], keys)
    return made


def _keys(value: Any) -> set[str]:
    """Every key of every object in the value."""
    if isinstance(value, Mapping):
        return {str(key) for key in value}.union(*(_keys(item) for item in value.values()))
    if isinstance(value, (list, tuple)):
        return set[str]().union(*(_keys(item) for item in value))
    return set()


def _registry(draft: JsonSchemaDraft, documents: Mapping[str, Any]) -> Any:
    """The published meta-schemas and the documents given; a registry of our own, so that nothing is fetched."""
    from jsonschema_specifications import REGISTRY
    from referencing import Registry, Resource

    published: Any = REGISTRY
    registry: Any = published.combine(Registry())
    usual = specification_of(draft)
    return registry.with_resources(
        (uri, Resource.from_contents(item, default_specification=usual)) for uri, item in documents.items()
    )


def _checker_of_nothing() -> Any:
    return jsonschema_library().FormatChecker(formats=())


def _checker(*, lax_times: bool) -> Any:
    """All formats of the newest draft; with `lax_times` times and dates with time may leave their offset out."""
    usual = validator_class("2020-12").FORMAT_CHECKER  # older drafts have fewer formats
    made = _checker_of_nothing()
    made.checkers = {**usual.checkers, "regex": (is_regular_expression, ())}
    for kind in ("iri", "iri-reference"):
        made.checkers[kind] = (partial(_is_short_iri, usual, kind), ())
    if lax_times:
        made.checkers.pop("uri", None)  # pydantic's URLs may hold other letters than ASCII's, and it has checked them
    for kind in ("date-time", "time") if lax_times else ():
        made.checkers[kind] = (lambda text, kind=kind: _is_lax_time(usual, kind, text), ())
    return made


def _is_short_iri(checker: Any, kind: str, text: object) -> bool:
    """Whether it is one; their parser takes half a second for as many characters as are allowed here."""
    return not isinstance(text, str) or (len(text) <= _LONGEST_IRI and bool(checker.conforms(text, kind)))


def _is_lax_time(checker: Any, kind: str, text: object) -> bool:
    if not isinstance(text, str):
        return True
    return bool(checker.conforms(text, kind) or checker.conforms(text + "Z", kind))
