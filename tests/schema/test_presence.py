"""Objects whose rules are over presence alone say each way to keep them, and no other."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentform.errors import UnsupportedSchema
from agentform.schema.presence import with_presence_said
from agentform.schema.target import load
from agentform.schema.validate import SchemaValidator

TEXT = {"type": "string"}
NAMES = ("a", "b", "c")
EITHER = {"oneOf": [{"required": ["a"]}, {"required": ["b"]}]}
SOME = st.lists(st.sampled_from(NAMES), min_size=1, max_size=2, unique=True)
SIMPLE = st.one_of(
    SOME.map(lambda names: {"required": names}),
    st.tuples(st.sampled_from(NAMES), SOME).map(lambda pair: {"dependentRequired": {pair[0]: pair[1]}}),
    st.integers(0, 3).map(lambda count: {"minProperties": count}),
    st.integers(0, 3).map(lambda count: {"maxProperties": count}),
    st.sampled_from([1, True, "x"]).map(lambda value: {"properties": {"k": {"const": value}}}),
    st.just({"properties": {"k": {"const": 1}}, "required": ["k"]}),
)
RULES = st.recursive(
    SIMPLE,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map(lambda arms: {"oneOf": arms}),
        st.lists(inner, min_size=1, max_size=3).map(lambda arms: {"anyOf": arms}),
        inner.map(lambda rule: {"not": rule}),
        st.tuples(inner, inner, inner).map(lambda three: dict(zip(("if", "then", "else"), three, strict=True))),
    ),
    max_leaves=4,
)


def record(**more):
    return {"type": "object", "properties": dict.fromkeys(NAMES, TEXT), **more}


@settings(max_examples=150, deadline=None, derandomize=True)
@given(rule=RULES, needed=st.sampled_from([[], ["a"], ["k"]]), closed=st.booleans())
def test_what_is_accepted_stays_what_it_was(rule, needed, closed):
    rules = {"allOf": [rule]} if {"required", "properties"} & rule.keys() else rule
    schema = record(**rules, required=needed, **({"additionalProperties": False} if closed else {}))
    schema["properties"]["k"] = {"enum": [1, "x"]}
    before, after = SchemaValidator(schema), SchemaValidator(with_presence_said(schema))
    for number in range(5):
        for keys in itertools.combinations((*NAMES, "k", "other"), number):
            for k in (1, "x", 2) if "k" in keys else ("x",):
                value = {**dict.fromkeys(keys, "x"), **({"k": k} if "k" in keys else {})}
                assert (before.check(value) == ()) == (after.check(value) == ()), value


@pytest.mark.parametrize("closed", [{}, {"additionalProperties": False}])
def test_items_that_are_written_freely_keep_rules_over_their_keys(takes, closed):
    schema = load({"type": "array", "items": {"$ref": "#/$defs/x"}, "$defs": {"x": record(**EITHER, **closed)}}).form
    written = schema.root.schema
    assert takes(written, '[{"a": "x"}, {"b": "y", "c": "z"}]')
    assert not takes(written, '[{"a": "x", "b": "y"}]')
    assert not takes(written, '[{"c": "z"}]')


ON_KIND = {"if": {"properties": {"kind": {"const": "x"}}}, "then": {"required": ["a"]}, "else": {"required": ["b"]}}
ONE_OF_KIND = {
    "oneOf": [
        {"properties": {"kind": {"const": "x"}}, "required": ["a"]},
        {"properties": {"kind": {"const": "y"}}, "required": ["b"]},
    ]
}


@pytest.mark.parametrize("rules", [ON_KIND, ONE_OF_KIND])
def test_items_that_are_written_freely_keep_rules_over_listed_values(takes, rules):
    item = record(**rules, required=["kind"])
    item["properties"] = {"kind": {"enum": ["x", "y"]}, **item["properties"]}
    written = load({"type": "array", "items": item}).form.root.schema
    assert takes(written, '[{"kind": "x", "a": "x"}, {"kind": "y", "b": "y", "c": "z"}]')
    assert not takes(written, '[{"kind": "x", "b": "y"}]')
    assert not takes(written, '[{"kind": "y", "a": "x"}]')


CONTRADICTIONS = [
    record(required=["a"], **{"not": {"required": ["a"]}}),
    record(required=["a"], dependentRequired={"a": ["b"]}, **{"not": {"required": ["b"]}}),
    record(required=["a"], allOf=[{"not": {"anyOf": [{"required": ["a"]}, {"required": ["b"]}]}}]),
    record(required=["a"], propertyNames={"pattern": "^b$"}),
    record(required=["a", "b"], maxProperties=1),
    record(minProperties=4, additionalProperties=False),
    record(required=["d"], additionalProperties=False),
    {"type": "string", "minLength": 3, "maxLength": 2},
    {"type": "number", "exclusiveMinimum": 3, "maximum": 3},
    {"type": "array", "items": TEXT, "minItems": 2, "maxItems": 1},
]


@pytest.mark.parametrize("schema", CONTRADICTIONS)
def test_what_nothing_satisfies_is_refused_with_its_place_where_it_is_needed(takes, schema):
    with pytest.raises(UnsupportedSchema, match=r"schema at '/properties/l/properties/o': no value satisfies it: "):
        load({"properties": {"l": {"properties": {"o": schema}, "required": ["o"]}}, "required": ["l"]})
    with pytest.raises(UnsupportedSchema, match=r"schema at '/properties/l/items"):
        load({"properties": {"l": {"type": "array", "items": schema, "minItems": 1}}, "required": ["l"]})
    written = load({"type": "array", "items": {"anyOf": [schema, {"type": "boolean"}]}}).form.root
    assert takes(written.schema, "[true]")


@pytest.mark.parametrize("schema", CONTRADICTIONS)
def test_a_list_whose_items_nothing_satisfies_is_written_empty(takes, schema):
    written = load({"type": "array", "items": schema}).form.root
    assert takes(written.schema, "[]")
    assert not takes(written.schema, '["x"]')


@pytest.mark.parametrize(
    "schema",
    [
        record(),
        record(anyOf=[{"properties": {"a": {"const": "x"}}}, {"required": ["b"]}]),
        record(minProperties=1),
        {"type": "object", "properties": {f"k{at}": TEXT for at in range(9)}, "additionalProperties": False}
        | {"maxProperties": 2},
    ],
)
def test_rules_over_values_and_over_too_many_keys_stay_as_they_are(schema):
    assert with_presence_said(schema) == schema


def test_rules_behind_references_are_rules_of_the_record():
    arms = {"a": {"required": ["a"]}, "b": {"required": ["b"]}}
    root = load(record(oneOf=[{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b"}], **{"$defs": arms})).form.root
    assert [item.name for item in root.fields] == list(NAMES)


def test_a_map_with_patterns_that_needs_more_keys_than_are_named_is_open():
    schema = {"type": "object", "properties": {"n": TEXT}, "patternProperties": {"^s_": TEXT}}
    assert load({**schema, "additionalProperties": False, "minProperties": 2}).form.root.why == "open map"
