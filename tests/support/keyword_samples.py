"""For every keyword a schema that needs it, values that it accepts, and values that only it refuses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["FORMAT_SAMPLES", "SAMPLES", "Sample"]


@dataclass(frozen=True)
class Sample:
    """Some values that a schema takes, and some that it does not take because of the keyword alone."""

    keyword: str
    schema: Any
    accepted: tuple[Any, ...]
    refused: tuple[Any, ...]


_CLOSED: dict[str, Any] = {"additionalProperties": False}
_AB: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, **_CLOSED}
_WORDS: dict[str, Any] = {"type": "array", "items": {"enum": ["x", "y"]}}
_CHAIN: dict[str, Any] = {
    "type": "object",
    "properties": {"v": {"type": "integer"}, "next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}},
    "required": ["v", "next"],
    **_CLOSED,
}

SAMPLES: tuple[Sample, ...] = (
    Sample("type", {"type": "integer"}, (1, -20), ("a", 1.5, None, True, [], {})),
    Sample("type", {"type": ["string", "null"]}, ("a", None), (1, False)),
    Sample("type", {"type": "object"}, ({}, {"a": 1}), ([], "a")),
    Sample("enum", {"enum": ["a", "b\n c", 'say "hi"', 3, None]}, ("a", "b\n c", 'say "hi"', 3, None), ("c", 4)),
    Sample("const", {"const": {"a": [1, "Österreich"]}}, ({"a": [1, "Österreich"]},), ({"a": [1]}, "a")),
    Sample("minimum", {"type": "integer", "minimum": 3}, (3, 4, 20_000_000_000), (2, -5)),
    Sample("minimum", {"type": "number", "minimum": 0.5}, (0.5, 1, 7.25), (0.25, -1)),
    Sample("maximum", {"type": "integer", "maximum": 20}, (20, -4), (21, 300)),
    Sample("exclusiveMinimum", {"type": "integer", "exclusiveMinimum": 3}, (4, 50), (3, 0)),
    Sample("exclusiveMaximum", {"type": "number", "exclusiveMaximum": 3}, (2.5, -1), (3, 3.5)),
    Sample("multipleOf", {"type": "integer", "multipleOf": 5}, (0, 15, -20), (7, 12)),
    Sample("minLength", {"type": "string", "minLength": 2}, ("ab", "äöü"), ("", "a")),
    Sample("maxLength", {"type": "string", "maxLength": 2}, ("", "ab", "ße"), ("abc",)),
    Sample("pattern", {"type": "string", "pattern": "^a+$"}, ("a", "aaa"), ("b", "ab", "")),
    Sample("pattern", {"type": "string", "pattern": "^[0-9]{2}-[A-Z]"}, ("12-A", "34-Bcd"), ("1-A", "12-a")),
    Sample("format", {"type": "string", "format": "date"}, ("2024-02-29",), ("2024-2-9", "tomorrow")),
    Sample("items", {"type": "array", "items": {"type": "integer"}}, ([], [1, 2]), (["a"], [1, "a"])),
    Sample(
        "prefixItems",
        {"type": "array", "prefixItems": [{"const": 1}, {"const": 2}], "items": False, "minItems": 2},
        ([1, 2],),
        ([2, 1], [1, 3]),
    ),
    Sample("minItems", {**_WORDS, "minItems": 2}, (["x", "y"], ["x", "x", "x"]), ([], ["x"])),
    Sample("maxItems", {**_WORDS, "maxItems": 2}, ([], ["x", "y"]), (["x", "x", "x"],)),
    Sample("uniqueItems", {**_WORDS, "uniqueItems": True}, ([], ["x", "y"]), (["x", "x"],)),
    Sample("contains", {**_WORDS, "contains": {"const": "x"}}, (["x"], ["y", "x"]), ([], ["y"])),
    Sample("minContains", {**_WORDS, "contains": {"const": "x"}, "minContains": 2}, (["x", "x"],), (["x"],)),
    Sample("maxContains", {**_WORDS, "contains": {"const": "x"}, "maxContains": 1}, (["x"],), (["x", "x"],)),
    Sample(
        "unevaluatedItems",
        {"type": "array", "prefixItems": [{"const": 1}], "unevaluatedItems": False, "minItems": 1},
        ([1],),
        ([1, 2],),
    ),
    Sample("properties", _AB, ({}, {"a": 1}, {"a": 1, "b": 2}), ({"a": "x"},)),
    Sample("required", {**_AB, "required": ["a"]}, ({"a": 1}, {"a": 1, "b": 2}), ({}, {"b": 2})),
    Sample("required", {"type": "object", "required": ["a"]}, ({"a": 1}, {"a": "x", "b": 2}), ({}, {"b": 2})),
    Sample("additionalProperties", _AB, ({"b": 1},), ({"a": 1, "c": 1},)),
    Sample(
        "additionalProperties",
        {"type": "object", "additionalProperties": {"type": "integer"}},
        ({}, {"x": 1, "ä b": 2}),
        ({"x": "y"},),
    ),
    Sample(
        "patternProperties",
        {"type": "object", "patternProperties": {"^x": {"type": "integer"}}, **_CLOSED},
        ({}, {"x1": 1}),
        ({"x1": "a"}, {"y": 1}),
    ),
    Sample(
        "propertyNames",
        {"type": "object", "additionalProperties": {"type": "integer"}, "propertyNames": {"enum": ["p", "q"]}},
        ({}, {"p": 1}),
        ({"z": 1},),
    ),
    Sample(
        "minProperties",
        {"type": "object", "additionalProperties": {"type": "integer"}, "minProperties": 1},
        ({"p": 1},),
        ({},),
    ),
    Sample("minProperties", {**_AB, "minProperties": 1}, ({"a": 1},), ({},)),
    Sample(
        "maxProperties",
        {"type": "object", "additionalProperties": {"type": "integer"}, "maxProperties": 1},
        ({}, {"p": 1}),
        ({"p": 1, "q": 2},),
    ),
    Sample(
        "dependentRequired", {**_AB, "dependentRequired": {"a": ["b"]}}, ({"a": 1, "b": 2}, {"b": 1}, {}), ({"a": 1},)
    ),
    Sample(
        "dependentSchemas", {**_AB, "dependentSchemas": {"a": {"required": ["b"]}}}, ({"a": 1, "b": 2}, {}), ({"a": 1},)
    ),
    Sample(
        "unevaluatedProperties",
        {"type": "object", "properties": {"a": {"type": "integer"}}, "unevaluatedProperties": False},
        ({}, {"a": 1}),
        ({"a": 1, "c": 1},),
    ),
    Sample("allOf", {"allOf": [{"type": "integer", "minimum": 3}, {"maximum": 5}]}, (3, 5), (2, 6, "a")),
    Sample("anyOf", {"anyOf": [{"type": "integer"}, {"type": "string", "maxLength": 1}]}, (1, "a"), ("ab", None)),
    Sample("oneOf", {"oneOf": [{"type": "integer"}, {"type": "string", "maxLength": 1}]}, (1, "a"), ("ab", None)),
    Sample("oneOf", {"oneOf": [{"type": "integer", "minimum": 0}, {"type": "integer", "maximum": 9}]}, (-1, 10), (5,)),
    Sample("not", {"type": "string", "maxLength": 1, "not": {"const": "a"}}, ("", "b"), ("a",)),
    Sample(
        "if",
        {**_AB, "if": {"properties": {"a": {"const": 1}}, "required": ["a"]}, "then": {"required": ["b"]}},
        ({"a": 1, "b": 2}, {"a": 2}, {}),
        ({"a": 1},),
    ),
    Sample("$ref", _CHAIN, ({"v": 1, "next": None}, {"v": 1, "next": {"v": 2, "next": None}}), ({"v": 1, "next": 3},)),
    Sample(
        "$ref", {"type": "array", "items": {"$ref": "#/$defs/n"}, "$defs": {"n": {"type": "integer"}}}, ([1],), (["a"],)
    ),
)
"""A keyword may stand more than once; a table that calls it enforced claims every one of its lines."""

FORMAT_SAMPLES: dict[str, tuple[str, str]] = {
    "date-time": ("2024-02-29T12:30:00Z", "2024-02-29 noon"),
    "date": ("2024-02-29", "2024-2-9"),
    "time": ("12:30:00Z", "half past"),
    "duration": ("P3DT4H", "3 days"),
    "email": ("a.b@example.org", "nobody"),
    "hostname": ("www.example.org", "-a-.b c"),
    "ipv4": ("192.168.0.1", "192.168.0"),
    "ipv6": ("2001:db8::1", "12345::"),
    "uuid": ("2eb8aa08-aa98-11ea-b4aa-73b441d16380", "2eb8aa08"),
    "uri": ("https://example.org/a?b=c#d", "no scheme"),
    "uri-reference": ("/a/b#c", "a b"),
    "uri-template": ("/a/{b}", "/a/{b"),
    "iri": ("https://example.org/ä", "no scheme"),
    "iri-reference": ("/ä", "a b"),
    "json-pointer": ("/a/b~0c", "a"),
    "relative-json-pointer": ("1/a", "/a"),
    "regex": ("^a+$", "(a"),
    "idn-email": ("ä@example.org", "nobody"),
    "idn-hostname": ("münchen.de", "a b"),
}
"""For each format of draft 2020-12 a text that has it and one that has not."""
