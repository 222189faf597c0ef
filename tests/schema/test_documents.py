"""What a raw schema may name: published meta-schemas and documents that are given; nothing is fetched."""

from __future__ import annotations

import pytest

from agentform.schema.validate import SchemaValidator

NUMBER = {"http://x.test/n.json": {"type": "number", "$defs": {"big": {"minimum": 10}}}}


@pytest.mark.parametrize(("ref", "value", "legal"), [("n.json", 1, True), ("n.json", "a", False)])
def test_documents_that_are_given_are_found(ref, value, legal):
    validator = SchemaValidator({"$id": "http://x.test/", "$ref": ref}, documents=NUMBER)
    assert (validator.check(value) == ()) == legal


def test_published_meta_schemas_are_found():
    validator = SchemaValidator({"$ref": "http://json-schema.org/draft-07/schema#"}, "7")
    assert validator.check({"minLength": 1}) == ()
    assert [violation.pointer for violation in validator.check({"minLength": -1})] == ["/minLength"]


def test_formats_may_be_annotations():
    schema = {"type": "string", "format": "date"}
    assert SchemaValidator(schema).check("soon")
    assert SchemaValidator(schema, assert_formats=False).check("soon") == ()


def test_a_meta_schema_may_leave_assertions_out():
    schema = {"$schema": "http://x.test/meta", "properties": {"no": False, "n": {"minimum": 10}}}
    words = {"https://json-schema.org/draft/2020-12/vocab/applicator": True}
    validator = SchemaValidator(schema, documents={"http://x.test/meta": {"$vocabulary": words}})
    assert validator.check({"n": 1}) == ()
    assert validator.check({"no": 1})
    assert SchemaValidator(schema).check({"n": 1})


@pytest.mark.parametrize("keyword", ["anyOf", "oneOf"])
def test_an_arm_that_is_false_is_no_crash(keyword):
    assert SchemaValidator({keyword: [False, {"type": "integer"}]}).check("a")
    assert SchemaValidator({"contains": False}).check([1])
