"""What is asked when, and in which text."""

from __future__ import annotations

import json
from typing import Annotated, Literal

import pytest
from pydantic import BaseModel, Field

from agentform.forms.questions import open_questions
from agentform.schema.target import load
from tests.support.form_states import state_of


class Cat(BaseModel):
    kind: Literal["cat"]
    mood: Literal["calm", "wild"]


class Dog(BaseModel):
    kind: Literal["dog"]
    name: str


class Home(BaseModel):
    pet: Annotated[Cat | Dog, Field(discriminator="kind")]


def asked(root, decisions=None):
    return {(*q.path, q.kind): q for q in open_questions(state_of(root, decisions or {}))}


def root_of(source):
    return load(source).form.root


def record(properties, required=None):
    required = list(properties) if required is None else required
    return root_of({"type": "object", "properties": properties, "required": required})


def test_independent_choices_are_asked_in_one_wave_and_nothing_after_it():
    root = record({"a": {"enum": ["x", "y"]}, "b": {"type": "boolean"}, "c": {"const": 1}, "d": {"type": "string"}})
    first = open_questions(state_of(root))
    assert [(q.path, q.kind, q.lead, q.texts) for q in first] == [
        (("a",), "value", '{"a":', (' "x"}', ' "y"}')),
        (("b",), "value", '{"b":', (" true}", " false}")),
    ]
    assert open_questions(state_of(root, {q.key: 0 for q in first})) == []


def test_a_nested_leaf_is_asked_below_its_own_keys_only():
    inner = {
        "type": "object",
        "properties": {"c": {"enum": [1, 12]}, "e": {"enum": ["x", "y"]}},
        "required": ["c", "e"],
    }
    found = asked(record({"a": {"enum": ["x", "y"]}, "b": inner}))
    question = found["b", "c", "value"]
    assert question.lead == '{"b": {"c":'
    assert question.texts == (" 1}}", " 12}}")
    assert found["b", "e", "value"].lead == '{"b": {"e":'


def test_every_text_of_a_value_question_is_json_with_its_lead():
    root = record({'k"ey': {"enum": ["名古屋", 'say "hi"', "a\n b", None, 1.5, [1], {"x": "}"}]}})
    [question] = open_questions(state_of(root))
    assert [json.loads(question.lead + text)['k"ey'] for text in question.texts] == list(question.answers)


def test_a_key_is_asked_for_presence_first_and_for_its_value_only_if_present():
    root = record({"a": {"enum": ["x", "y"]}}, required=[])
    found = asked(root)
    assert list(found) == [("a", "presence")]
    question = found["a", "presence"]
    assert question.answers == (False, True)
    assert dict(zip(question.texts, question.groups, strict=True)) == {" null}": 0, ' "': 1}
    assert asked(root, {(("a",), "presence"): 0}) == {}
    assert list(asked(root, {(("a",), "presence"): 1})) == [("a", "value")]


@pytest.mark.parametrize(
    ("schema", "openers"),
    [
        ({"type": "string"}, {'"'}),
        ({"type": "integer"}, {"-", *"0123456789"}),
        ({"type": "array", "items": {}}, {"["}),
        ({"type": "object", "properties": {"x": {"type": "string"}}}, {"{"}),
        ({"enum": [True, "x", 12]}, {"true", '"', "1"}),
    ],
)
def test_presence_stands_for_all_that_the_value_can_begin_with(schema, openers):
    question = asked(record({"a": schema}, required=[]))["a", "presence"]
    assert {t.removeprefix(" ") for t, group in zip(question.texts, question.groups, strict=True) if group} == openers


def test_nullable_text_is_told_by_how_the_value_begins():
    root = record({"a": {"type": ["string", "null"]}})
    question = asked(root)["a", "arm"]
    assert dict(zip(question.texts, question.answers, strict=True)) == {' "': "string", " null": "null"}
    assert asked(root, {(("a",), "arm"): 0}) == {}


def test_a_nullable_enum_is_one_question():
    question = asked(record({"a": {"enum": ["x", None]}}))["a", "value"]
    assert question.answers == ("x", None)


def test_an_arm_with_several_openers_keeps_them_together():
    question = asked(record({"a": {"type": ["integer", "string"]}}))["a", "arm"]
    number = question.answers.index("integer")
    grouped = {t for t, group in zip(question.texts, question.groups, strict=True) if group == number}
    assert grouped == {" -", *(f" {digit}" for digit in range(10))}


def test_a_discriminator_is_asked_by_its_value_and_then_stands_beside_the_arms_leaves():
    root = root_of(Home)
    question = asked(root)["pet", "arm"]
    assert question.lead == '{"pet": {"kind":'
    assert question.texts == (' "cat"}}', ' "dog"}}')
    second = asked(root, {(("pet",), "arm"): 0})
    assert list(second) == [("pet", "mood", "value")]
    assert second["pet", "mood", "value"].lead == '{"pet": {"kind": "cat", "mood":'
    assert asked(root, {(("pet",), "arm"): 1}) == {}


def test_arms_that_begin_alike_are_told_apart_by_name():
    class Circle(BaseModel):
        radius: Literal[1, 2]

    class Square(BaseModel):
        side: float

    class Drawing(BaseModel):
        shape: Circle | Square

    root = root_of(Drawing)
    question = asked(root)["shape", "arm"]
    assert question.lead == '{"shape type":'
    assert question.texts == (' "Circle"}', ' "Square"}')
    assert list(asked(root, {(("shape",), "arm"): 0})) == [("shape", "radius", "value")]


def test_at_the_root_nothing_stands_before_the_value_and_numbers_end():
    [words] = open_questions(state_of(root_of(Literal["a", "ab"])))
    assert (words.lead, words.texts) == ("", ('"a"', '"ab"'))
    [numbers] = open_questions(state_of(root_of(Literal[1, 12])))
    assert numbers.texts == ("1\n", "12\n")
