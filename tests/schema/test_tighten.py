"""A bound on one value inside a schema: it holds there, and nothing is accepted that was not accepted before."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from agentform.schema.json_text import dumps
from agentform.schema.tighten import narrowed

WORDS = {"type": "array", "items": {"type": "string"}}
TWO = {"maxItems": 2}


def valid(schema, value):
    return Draft202012Validator(schema).is_valid(value)


@pytest.mark.parametrize(
    ("schema", "steps", "made"),
    [
        (True, (), TWO),
        (WORDS, (), {**WORDS, **TWO}),
        ({**WORDS, "maxItems": 9}, (), {**WORDS, **TWO}),
        ({"type": ["null", "array"]}, (), {"type": ["null", "array"], **TWO}),
        (
            {"anyOf": [WORDS, {"type": "null"}], "minItems": 1},
            (),
            {"anyOf": [{**WORDS, **TWO, "minItems": 1}, {"type": "null", "minItems": 1}]},
        ),
        ({"allOf": [{"type": "array"}, {"minItems": 1}]}, (), {"type": "array", "minItems": 1, **TWO}),
        (
            {"$ref": "#/$defs/w", "minItems": 1, "$defs": {"w": WORDS}},
            (),
            {**WORDS, "minItems": 1, **TWO, "$defs": {"w": WORDS}},
        ),
        ({"items": WORDS}, (2,), {"items": WORDS, "prefixItems": [WORDS, WORDS, {**WORDS, **TWO}]}),
        (
            {"prefixItems": [True, WORDS, False]},
            (1,),
            {"prefixItems": [True, {**WORDS, **TWO}, False]},
        ),
        (
            {"properties": {"a": WORDS, "b": WORDS}},
            (("a", "b"),),
            {"properties": {"a": WORDS, "b": {**WORDS, **TWO}}},
        ),
        (
            {"type": "object", "properties": {"z": True}, "additionalProperties": WORDS},
            (("y", "b"),),
            {
                "type": "object",
                "properties": {"z": True, "y": WORDS, "b": {**WORDS, **TWO}},
                "additionalProperties": WORDS,
            },
        ),
    ],
)
def test_the_bound_stands_at_the_place_and_nowhere_else(schema, steps, made):
    assert narrowed(schema, steps, "array", TWO) == made


def test_a_recursive_schema_is_opened_as_far_as_the_place_lies():
    node = {"type": "object", "properties": {"kids": {"type": "array", "items": {"$ref": "#/$defs/n"}}}}
    made = narrowed({"$ref": "#/$defs/n", "$defs": {"n": node}}, (("kids",), 0, ("kids",)), "array", TWO)
    leaf = {"kids": []}
    assert valid(made, {"kids": [{"kids": [leaf] * 2}, {"kids": [leaf] * 3}]})
    assert not valid(made, {"kids": [{"kids": [leaf] * 3}]})


@pytest.mark.parametrize(
    ("schema", "steps", "kind", "bound"),
    [
        (False, (), "array", TWO),
        ({"type": "string"}, (), "array", TWO),
        ({"type": "array", "minItems": 3}, (), "array", TWO),
        ({"type": "array", "maxItems": 2}, (), "array", TWO),
        ({"type": "array", "contains": {"const": 1}}, (), "array", TWO),
        ({"enum": [[1, 1, 1]]}, (), "array", TWO),
        ({"oneOf": [{"type": "array"}, {"type": "null"}]}, (), "array", TWO),
        ({"type": "string", "minLength": 3}, (), "string", {"maxLength": 2}),
        ({"type": "string", "pattern": "^(ab)*$"}, (), "string", {"maxLength": 2}),
        ({"type": "string", "format": "uri"}, (), "string", {"maxLength": 2}),
        ({"type": "number", "exclusiveMinimum": 9}, (), "number", {"maximum": 8}),
        ({"patternProperties": {"^a": {"minItems": 3}}}, (("a",),), "array", TWO),
        ({"allOf": [{"prefixItems": [True]}, {"items": WORDS}]}, (0,), "array", TWO),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}, (), "array", TWO),
    ],
)
def test_where_a_bound_may_leave_nothing_there_is_none(schema, steps, kind, bound):
    assert narrowed(schema, steps, kind, bound) is None


@pytest.mark.parametrize(
    ("schema", "made"),
    [
        ({"type": "number"}, {"type": "number", "maximum": 9, "multipleOf": 0.1}),
        ({"type": "integer"}, {"type": "integer", "maximum": 9}),
        ({"type": "number", "maximum": 5, "multipleOf": 2}, None),
    ],
)
def test_a_number_keeps_its_own_step(schema, made):
    assert narrowed(schema, (), "number", {"maximum": 9, "multipleOf": 0.1}) == made


COUNTS = st.integers(0, 3)
SCALARS = st.sampled_from(
    [
        True,
        {"type": "string"},
        {"type": "string", "minLength": 2},
        {"type": "string", "pattern": "^a"},
        {"type": ["string", "null"]},
        {"type": "number"},
        {"type": "integer", "maximum": 9},
        {"enum": ["a", [1, 1]]},
        False,
    ]
)


def _below(inner):
    arrays = st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(["array", ["array", "null"]]),
            "items": inner,
            "prefixItems": st.lists(inner, min_size=1, max_size=2),
            "minItems": COUNTS,
            "maxItems": COUNTS,
            "uniqueItems": st.booleans(),
            "unevaluatedItems": inner,
            "contains": inner,
        },
    )
    objects = st.fixed_dictionaries(
        {},
        optional={
            "type": st.just("object"),
            "properties": st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
            "additionalProperties": inner,
            "patternProperties": st.dictionaries(st.just("^a"), inner, min_size=1),
            "unevaluatedProperties": inner,
            "required": st.just(["a"]),
        },
    )
    parts = st.lists(inner, min_size=1, max_size=2)
    combined = st.one_of(
        st.fixed_dictionaries({"anyOf": parts}, optional={"minItems": COUNTS, "items": inner}),
        st.fixed_dictionaries({"allOf": parts}, optional={"minItems": COUNTS, "unevaluatedItems": inner}),
        st.fixed_dictionaries({"oneOf": parts}),
        st.fixed_dictionaries({"$ref": st.just("#/$defs/x")}, optional={"minLength": COUNTS, "properties": st.none()}),
    ).map(lambda made: {key: value for key, value in made.items() if value is not None})
    return st.one_of(arrays, objects, combined)


SCHEMAS = st.recursive(SCALARS, _below, max_leaves=7)
SOME = ["", "a", "ab", "abc", 1, 2.5, 10**20, None, True, [], {}]
FLAT = [*SOME, ["abc"], [1, 1], [1, "a", "a"], ["ab", "ab", "ab"], {"a": "abc"}, {"a": 1, "b": "a"}, {"c": ["a"] * 3}]
VALUES = [*FLAT, *([x, y] for x in FLAT for y in FLAT[-8:]), *({"a": x} for x in FLAT), *({"b": x} for x in FLAT)]
BOUNDS = st.sampled_from(
    [("array", {"maxItems": 1}), ("array", {"maxItems": 2}), ("string", {"maxLength": 2}), ("number", {"maximum": 3})]
)
STEPS = st.lists(
    st.one_of(st.integers(0, 2), st.lists(st.sampled_from("abc"), min_size=1, max_size=2, unique=True).map(tuple)),
    max_size=3,
).map(tuple)


@st.composite
def narrowings(draw):
    schema, named = draw(SCHEMAS), draw(SCALARS | _below(SCALARS))
    if isinstance(schema, dict):
        schema = {**schema, "$defs": {"x": named if "$ref" not in dumps(named) else True}}
    return schema, narrowed(schema, draw(STEPS), *draw(BOUNDS))


def examples(number):
    return settings(
        max_examples=number,
        deadline=None,
        suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    )


@examples(150)
@given(pair=narrowings())
def test_what_is_accepted_now_was_accepted_before(pair):
    schema, made = pair
    assume(made is not None)
    now, before = Draft202012Validator(made), Draft202012Validator(schema)
    for value in VALUES:
        assert not now.is_valid(value) or before.is_valid(value), (value, schema, made)
