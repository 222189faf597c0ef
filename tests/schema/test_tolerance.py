from __future__ import annotations

import pytest

from agentform.errors import UnsupportedSchema
from agentform.schema.lint import lint
from agentform.schema.target import load

DRAFT_4 = "http://json-schema.org/draft-04/schema#"
DRAFT_7 = "http://json-schema.org/draft-07/schema#"
NEWEST = "https://json-schema.org/draft/2020-12/schema"


@pytest.mark.parametrize(
    ("schema", "pointer", "legal", "illegal"),
    [
        ({"enum": ["a", "a", "b"]}, "/enum", "a", "c"),
        ({"$schema": DRAFT_4, "enum": ["a", "b", "a"]}, "/enum", "b", "c"),
        ({"type": ["string", "string"]}, "/type", "a", 1),
        ({"type": "object", "required": ["a", "a"]}, "/required", {"a": 1}, {}),
        ({"type": "array", "items": []}, "/items", [1, "a"], "a"),
        ({"$schema": DRAFT_7, "type": "array", "items": []}, "/items", [1], 1),
        ({"type": "array", "prefixItems": []}, "/prefixItems", [1], 1),
        ({"$schema": NEWEST, "type": "array", "items": [{"type": "string"}]}, "/items", ["a", 1], [1]),
        (
            {"$schema": NEWEST, "type": "array", "items": [{"type": "string"}], "additionalItems": False},
            "/items",
            ["a"],
            ["a", 1],
        ),
    ],
)
def test_what_is_unusual_but_clear_is_accepted_with_a_remark(schema, pointer, legal, illegal):
    target = load(schema)
    assert target.validator.check(legal) == ()
    assert target.validator.check(illegal) != ()
    assert pointer in [hint.pointer for hint in lint(target.form)]


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array", "items": True},
        {"type": "array", "items": False},
        {"type": "array", "items": {}},
        {"type": "array", "items": [True, False]},
        {"$schema": DRAFT_7, "type": "array", "items": [{"type": "string"}], "additionalItems": {"type": "integer"}},
    ],
)
def test_usual_forms_have_no_remark(schema):
    assert load(schema).form.remarks == ()


@pytest.mark.parametrize("schema", [{"type": "array", "items": "string"}, {"type": "array", "items": None}])
def test_what_means_nothing_is_still_refused(schema):
    with pytest.raises(UnsupportedSchema) as raised:
        load(schema)
    assert raised.value.pointer == "/items"
