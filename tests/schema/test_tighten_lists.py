"""Lists that broke a rule are written again under a schema that keeps what was right, and allows nothing illegal."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from agentform.schema.target import load
from agentform.schema.tighten_lists import with_list_rules

WORDS = {"type": "array", "items": {"type": "string"}}


@pytest.mark.parametrize(
    ("schema", "value", "path", "legal", "illegal"),
    [
        ({**WORDS, "uniqueItems": True}, ["a", "b", "a"], (), '["a", "b"]', '["a", "b", "a"]'),
        (
            {**WORDS, "contains": {"const": "z"}, "maxItems": 3},
            ["a", "b", "c"],
            (),
            '["a", "b", "z"]',
            '["a", "b", "c"]',
        ),
        ({**WORDS, "contains": {"const": "a"}, "maxContains": 1}, ["a", "b", "a"], (), '["a", "b"]', '["a", "b", "a"]'),
        (
            {**WORDS, "contains": {"const": "z"}, "minContains": 2, "maxItems": 3},
            ["a", "b", "z"],
            (),
            '["a", "z", "z"]',
            '["a", "b", "z"]',
        ),
        (
            {"type": "object", "additionalProperties": {**WORDS, "uniqueItems": True}},
            {"x": ["a"], "y": ["b", "b"]},
            ("y",),
            '{"x": ["q"], "y": ["b"]}',
            '{"x": ["q"], "y": ["b", "b"]}',
        ),
    ],
)
def test_the_items_that_may_stay_are_kept(takes, schema, value, path, legal, illegal):
    narrower = with_list_rules(schema, value, path)
    assert takes(narrower, legal)
    assert not takes(narrower, illegal)


@pytest.mark.parametrize(
    ("schema", "value", "path"),
    [
        ({**WORDS, "uniqueItems": True, "minItems": 2}, ["a", "a"], ()),
        (WORDS, "a", ()),
        (WORDS, ["a"], ("7",)),
        ({"type": "object"}, {"a": 1}, ("b",)),
    ],
)
def test_where_there_is_no_such_list_or_no_room_there_is_none(schema, value, path):
    assert with_list_rules(schema, value, path) is None


RULES = st.fixed_dictionaries(
    {},
    optional={
        "uniqueItems": st.booleans(),
        "contains": st.sampled_from([{"const": 1}, {"minimum": 3}]),
        "minContains": st.integers(1, 3),
        "maxContains": st.integers(3, 4),
        "minItems": st.integers(0, 2),
        "maxItems": st.integers(3, 5),
    },
)


@settings(max_examples=80, deadline=None, derandomize=True)
@given(rules=RULES, value=st.lists(st.integers(0, 4), max_size=5))
def test_what_stays_breaks_no_rule_for_the_items_that_are_there(rules, value):
    schema = {"type": "array", "items": {"type": "integer"}, **rules}
    narrower = with_list_rules(schema, value, ())
    if narrower is None:
        return
    assert json.dumps(narrower)
    kept = [item["const"] for item in narrower["prefixItems"] if "const" in item]
    assert not Counter(kept) - Counter(value)
    missing = len(narrower["prefixItems"]) - len(kept)
    holding = [1] * 3 if rules.get("contains") == {"const": 1} else [3, 4, 5, 6, 7, 8]
    added = [item for item in holding if item not in kept or not rules.get("uniqueItems")][:missing]
    whole = [*kept, *added]
    assume(len(whole) == narrower["minItems"])
    assume(not rules.get("uniqueItems") or len(set(added)) == len(added))
    assert load(schema).validator.check(whole) == ()
