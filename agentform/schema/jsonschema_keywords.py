"""Keywords that this package decides otherwise than the `jsonschema` library does.

Regular expressions run in linear time, multiples are counted in decimals, and that items differ is seen in one pass.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from agentform._util.exact import is_multiple
from agentform.schema.jsonschema_library import jsonschema_library
from agentform.schema.regex import compiled

__all__ = ["OWN_KEYWORDS", "additional_keys", "equality", "is_regular_expression", "literal_patterns"]


def _pattern(validator: Any, pattern: str, instance: Any, schema: Any) -> Iterator[Any]:
    if validator.is_type(instance, "string") and not compiled(pattern).search(instance):
        yield _error(f"{instance!r} does not match {pattern!r}")


def _pattern_properties(validator: Any, patterns: Mapping[str, Any], instance: Any, schema: Any) -> Iterator[Any]:
    if not validator.is_type(instance, "object"):
        return
    for pattern, subschema in patterns.items():
        expression = compiled(pattern)
        for key, value in instance.items():
            if expression.search(key):
                yield from validator.descend(value, subschema, path=key, schema_path=pattern)


def _additional_properties(validator: Any, wanted: Any, instance: Any, schema: Any) -> Iterator[Any]:
    if not validator.is_type(instance, "object"):
        return
    extras = list(additional_keys(instance, schema))
    if validator.is_type(wanted, "object"):
        for extra in extras:
            yield from validator.descend(instance[extra], wanted, path=extra)
    elif not wanted and extras:
        listed = ", ".join(map(repr, sorted(extras)))
        yield _error(f"Additional properties are not allowed: {listed}")


def additional_keys(keys: Iterable[str], schema: Mapping[str, Any]) -> Iterator[str]:
    """Those of the keys that an object schema neither names nor has a pattern for."""
    named = schema.get("properties", {})
    expressions = [compiled(pattern) for pattern in schema.get("patternProperties", {})]
    for key in keys:
        if key not in named and not any(expression.search(key) for expression in expressions):
            yield key


def _multiple_of(validator: Any, step: Any, instance: Any, schema: Any) -> Iterator[Any]:
    if validator.is_type(instance, "number") and not is_multiple(instance, step):
        yield _error(f"{instance!r} is not a multiple of {step}")


def _unique_items(validator: Any, wanted: Any, instance: Any, schema: Any) -> Iterator[Any]:
    if not wanted or not validator.is_type(instance, "array"):
        return
    seen: set[str] = set()
    for item in instance:
        key = equality(item)
        if key in seen:
            yield _error(f"{item!r} stands in the list more than once")
            return
        seen.add(key)


def equality(value: Any) -> str:
    """A text that two values share exactly when JSON Schema calls them equal: 1 and 1.0, but not true."""
    return json.dumps(_whole(value), sort_keys=True)


def _whole(value: Any) -> Any:
    match value:
        case float() if value.is_integer():
            return int(value)
        case list() | tuple():
            return [_whole(item) for item in value]
        case dict():
            return {key: _whole(item) for key, item in value.items()}
        case _:
            return value


def _ref(validator: Any, ref: str, instance: Any, schema: Any) -> Iterator[Any]:
    """Each definition is asked once about each part of a value, however often the document leads there.

    Definitions that use one another twice would otherwise take time that grows exponentially with their number.
    """
    remembered: dict[tuple[int, int], list[Any]] | None = getattr(validator.format_checker, "remembered", None)
    if remembered is None or not ref.startswith("#"):
        yield from validator._validate_reference(ref=ref, instance=instance)
        return
    key = id(validator._resolver.lookup(ref).contents), id(instance)
    if key in remembered:
        yield from (_brief(error) for error in remembered[key])
        return
    errors = list(validator._validate_reference(ref=ref, instance=instance))
    remembered[key] = [_brief(error) for error in errors[:1]]
    yield from errors


def _brief(error: Any) -> Any:
    """The error without what every arm of a union had to say."""
    return jsonschema_library().ValidationError(
        error.message,
        validator=error.validator,
        validator_value=error.validator_value,
        instance=error.instance,
        schema=error.schema,
        path=error.relative_path,
        schema_path=error.relative_schema_path,
    )


OWN_KEYWORDS = {
    "$ref": _ref,
    "pattern": _pattern,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional_properties,
    "multipleOf": _multiple_of,
    "uniqueItems": _unique_items,
}
"""By keyword: what the library calls to find errors."""


def _error(message: str) -> Any:
    return jsonschema_library().ValidationError(message)


def is_regular_expression(text: object) -> bool:
    """The format `regex`."""
    if not isinstance(text, str):
        return True
    try:
        compiled(text)
    except (re.error, OverflowError, RecursionError):
        return False
    return True


def literal_patterns(patterns: Mapping[str, Any], keys: Iterable[str]) -> dict[str, Any]:
    """`patternProperties` for an instance whose keys are among `keys`, without an expression that can be slow.

    Each becomes the list of the keys that it matches; the library looks for those itself where it sees to what is
    left unevaluated.
    """
    made: dict[str, Any] = {}
    for pattern, subschema in patterns.items():
        found = sorted(key for key in keys if compiled(pattern).search(key))
        text = rf"\A(?:{'|'.join(map(re.escape, found))})\Z" if found else r"(?!)"
        made[text] = {"allOf": [made[text], subschema]} if text in made else subschema
    return made
