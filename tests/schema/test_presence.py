"""Objects whose rules are over presence alone say each way to keep them, and no other."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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
@given(rule=RULES, needed=st.sampled_from([[], ["a"]]), closed=st.booleans())
def test_what_is_accepted_stays_what_it_was(rule, needed, closed):
    rules = {"allOf": [rule]} if "required" in rule else rule
    schema = record(**rules, required=needed, **({"additionalProperties": False} if closed else {}))
    before, after = SchemaValidator(schema), SchemaValidator(with_presence_said(schema))
    for number in range(5):
        for keys in itertools.combinations((*NAMES, "other"), number):
            value = dict.fromkeys(keys, "x")
            assert (before.check(value) == ()) == (after.check(value) == ()), keys


@pytest.mark.parametrize("closed", [{}, {"additionalProperties": False}])
def test_items_that_are_written_freely_keep_rules_over_their_keys(takes, closed):
    schema = load({"type": "array", "items": {"$ref": "#/$defs/x"}, "$defs": {"x": record(**EITHER, **closed)}}).form
    written = schema.root.schema
    assert takes(written, '[{"a": "x"}, {"b": "y", "c": "z"}]')
    assert not takes(written, '[{"a": "x", "b": "y"}]')
    assert not takes(written, '[{"c": "z"}]')


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
