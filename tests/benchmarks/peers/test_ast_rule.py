from __future__ import annotations

import pytest

from agentform.schema.json_text import dumps
from benchmarks.common.harness import Context
from benchmarks.peers.ast_rule import is_accepted
from benchmarks.peers.bfcl import load_questions
from benchmarks.peers.prompts import call_schema
from benchmarks.peers.validity import is_valid, parsed

DECLARED = {
    "trip": {
        "type": "dict",
        "required": ["town"],
        "properties": {
            "town": {"type": "string"},
            "days": {"type": "integer"},
            "budget": {"type": "float"},
            "stops": {"type": "array", "items": {"type": "string"}},
            "direct": {"type": "boolean"},
            "guest": {"type": "dict", "properties": {}},
            "legs": {"type": "array", "items": {"type": "dict"}},
        },
    }
}
ACCEPTED = {
    "trip": {
        "town": ["St. Gallen", "St. Gallen, Switzerland"],
        "days": ["", 3],
        "budget": ["", 100.0],
        "stops": ["", ["Ulm", "Lindau"]],
        "direct": ["", True],
        "guest": ["", {"name": ["Ann", "Anne"], "age": ["", 7]}],
        "legs": ["", [{"to": ["Ulm"]}, {"to": ["Jena"]}]],
    }
}


@pytest.mark.parametrize(
    ("arguments", "right"),
    [
        ({"town": "St. Gallen"}, True),
        ({"town": "st gallen"}, True),
        ({"town": "ST-GALLEN, Switzerland"}, True),
        ({"town": "Basel"}, False),
        ({}, False),
        ({"town": "St. Gallen", "days": 3}, True),
        ({"town": "St. Gallen", "days": 4}, False),
        ({"town": "St. Gallen", "days": 3.0}, False),
        ({"town": "St. Gallen", "days": "3"}, False),
        ({"town": "St. Gallen", "budget": 100}, True),
        ({"town": "St. Gallen", "budget": 100.5}, False),
        ({"town": "St. Gallen", "stops": ["ulm", "Lindau"]}, True),
        ({"town": "St. Gallen", "stops": ["Lindau", "Ulm"]}, False),
        ({"town": "St. Gallen", "stops": [1, 2]}, False),
        ({"town": "St. Gallen", "direct": True}, True),
        ({"town": "St. Gallen", "direct": False}, False),
        ({"town": "St. Gallen", "direct": 1}, False),
        ({"town": "St. Gallen", "guest": {"name": "anne"}}, True),
        ({"town": "St. Gallen", "guest": {"name": "Ann", "age": 7}}, True),
        ({"town": "St. Gallen", "guest": {"name": "Ann", "age": 8}}, False),
        ({"town": "St. Gallen", "guest": {"age": 7}}, False),
        ({"town": "St. Gallen", "guest": {"name": "Ann", "town": "Ulm"}}, False),
        ({"town": "St. Gallen", "legs": [{"to": "Ulm"}, {"to": "Jena"}]}, True),
        ({"town": "St. Gallen", "legs": [{"to": "Jena"}, {"to": "Ulm"}]}, False),
        ({"town": "St. Gallen", "colour": "red"}, False),
    ],
)
def test_a_value_is_right_by_type_and_by_what_is_accepted(arguments, right):
    assert is_accepted({"name": "trip", "arguments": arguments}, ACCEPTED, DECLARED) is right


def test_a_parameter_may_be_left_out_only_where_that_is_accepted():
    accepted = {"trip": {"town": ["Ulm"], "days": [3]}}
    assert not is_accepted({"name": "trip", "arguments": {"town": "Ulm"}}, accepted, DECLARED)


@pytest.mark.parametrize("call", [None, [], {"name": "walk", "arguments": {}}, {"name": "trip"}, {"name": ["trip"]}])
def test_what_is_no_call_of_the_right_tool_is_wrong(call):
    assert not is_accepted(call, ACCEPTED, DECLARED)


def test_shipped_questions_have_answers_that_are_accepted_and_valid():
    questions = load_questions(Context(name="peers", data=None, quick=True), 100)
    assert len(questions) >= 5
    assert max(len(question.tools) for question in questions) > 1
    for question in questions:
        [(name, given)] = question.accepted.items()
        call = {"name": name, "arguments": {key: values[0] for key, values in given.items() if values[0] != ""}}
        assert is_accepted(call, question.accepted, question.declared)
        assert is_valid(dumps(call), call_schema(question.tools))


def test_validity_is_strict_json_and_the_schema():
    schema = {"type": "object", "properties": {"a": {"type": "number"}}, "additionalProperties": False}
    assert is_valid('{"a": 1}', schema)
    assert not is_valid('{"a": 1', schema)
    assert not is_valid('{"a": NaN}', schema)
    assert not is_valid('{"a": 1, "a": 2}', schema)
    assert not is_valid('{"b": 1}', schema)
    assert parsed("no") is None
