"""The true schema has the last word, and says where it was broken."""

import math
from datetime import UTC, date, datetime, time
from enum import Enum
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field, field_validator, model_validator

from agentform.errors import InvalidInput
from agentform.schema.json_text import dumps, loads
from agentform.schema.target import load


def check(source, value, **options):
    return [(v.pointer, v.reason) for v in load(source, **options).validator.check(value)]


def places(source, value):
    return [v.pointer for v in load(source).validator.check(value)]


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int = Field(9, ge=1, le=9)


class Dog(BaseModel):
    kind: Literal["dog"]
    name: str


class Model(BaseModel):
    pet: Annotated[Cat | Dog, Field(discriminator="kind")]
    ids: set[int] = set()
    meta: dict[str, int] = {}
    either: int | list[str] = 0


def test_a_valid_value_is_built_into_the_model():
    target = load(Model)
    value = {"pet": {"kind": "dog", "name": "Rex"}, "ids": [1, 2], "meta": {"a": 1}}
    assert target.validator.check(value) == ()
    built = target.validator.build(value)
    assert built == Model(pet=Dog(kind="dog", name="Rex"), ids={1, 2}, meta={"a": 1})


def test_pointers_lead_into_the_value():
    value = {"pet": {"kind": "cat", "lives": 12}, "meta": {"a/b": "x"}, "either": [1, "x"]}
    assert places(Model, value) == ["/pet/lives", "/meta/a~1b", "/either", "/either/0"]
    assert places(Model, {"pet": {"kind": "dog"}}) == ["/pet/name"]
    assert places(Model, {"pet": {"kind": "cow"}}) == ["/pet"]
    assert places(Model, {}) == ["/pet"]


def test_arms_of_a_union_share_one_violation():
    [(where, reason)] = check(int | bool | None, "x")
    assert where == ""
    assert reason.startswith("Input should be a valid integer")
    assert " or Input should be a valid boolean" in reason


def test_fault_07_set_with_duplicates():
    assert check(set[int], [7, 7])[0][1] == "7 stands in the list more than once"
    assert check(set[int], [7, 8]) == []


def test_json_types_are_not_coerced():
    assert places(Model, {"pet": {"kind": "cat", "lives": "3"}}) == ["/pet/lives"]
    assert places(int, "3") == [""]
    assert places(bool, "yes") == [""]


def test_fault_05_maps_keep_their_keys():
    assert load(dict[str, int]).validator.build({"b": 1, "a": 2}) == {"b": 1, "a": 2}


def test_fault_08_pattern_and_length_both_hold():
    kind = Annotated[str, Field(pattern="^a+$", max_length=2)]
    assert check(kind, "aa") == []
    assert places(kind, "aaa") == [""]
    assert places(kind, "b") == [""]


def test_fault_09_lookahead_still_loads_and_is_said():
    schema = {"type": "string", "pattern": "^(?=a)\\w+$"}
    assert (check(schema, "ab"), places(schema, "ba")) == ([], [""])
    rust_only = Annotated[str, Field(pattern=r"^\x{41}+$")]
    target = load(rust_only)
    assert target.form.relaxed[0].pointer == "/pattern"
    assert not target.validator.check("AA")
    assert target.validator.check("a")


def test_fault_10_long_strings():
    class Inner(BaseModel):
        text: str = Field(max_length=10_000)

    class Outer(BaseModel):
        inner: Inner

    assert places(Outer, {"inner": {"text": "x" * 10_000}}) == []
    assert places(Outer, {"inner": {"text": "x" * 10_001}}) == ["/inner/text"]


def test_fault_11_big_integers_are_exact():
    assert load(int).validator.build(2**63) == 2**63
    kind = Annotated[int, Field(le=20_000_000_000)]
    assert check(kind, 20_000_000_000) == []
    assert places(kind, 20_000_000_001) == [""]
    assert places({"type": "integer", "maximum": 2**63}, 2**63 + 1) == [""]


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf, float("1e400")])
@pytest.mark.parametrize("source", [float, Any, {"type": "number"}, True])
def test_fault_34_numbers_that_json_does_not_have(number, source):
    assert places(source, number) == [""]
    with pytest.raises(InvalidInput):
        load(source).validator.build(number)


def test_fault_34_other_values_that_json_does_not_have():
    assert places(dict[str, Any], {"a": [b"x"]}) == ["/a/0"]
    assert places({"type": "object"}, {"a": {1: 2}}) == ["/a"]


def test_fault_34_null_over_a_default():
    class Defaults(BaseModel):
        plain: int = 3
        nullable: int | None = 3

    assert places(Defaults, {"plain": None}) == ["/plain"]
    assert load(Defaults).validator.build({"nullable": None}).nullable is None
    assert load(Defaults).validator.build({}).nullable == 3


@pytest.mark.parametrize("source", [date, {"type": "string", "format": "date"}])
def test_dates_that_do_not_exist(source):
    assert places(source, "2024-02-29") == []
    assert places(source, "2024-02-30") == [""]


def test_formats_are_asserted_whatever_the_draft():
    for draft in ("http://json-schema.org/draft-04/schema#", "https://json-schema.org/draft/2020-12/schema"):
        schema = {"$schema": draft, "type": "string", "format": "date"}
        assert places(schema, "2022-01-32") == [""]


def test_times_without_offset_are_pydantics_to_judge():
    assert load(datetime).validator.build("2024-01-02T03:04:05") == datetime(2024, 1, 2, 3, 4, 5)
    assert load(datetime).validator.build("2024-01-02T03:04:05Z").tzinfo is not None
    assert load(time).validator.build("10:20:30") == time(10, 20, 30)
    assert places(datetime, "2024-01-02T25:00:00") == [""]
    assert places({"type": "string", "format": "date-time"}, "2024-01-02T03:04:05") == [""]
    assert load(datetime).validator.build("2024-01-02T03:04:05Z") == datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC)


def test_validators_of_the_user_are_heard():
    class Range(BaseModel):
        low: int
        high: int

        @field_validator("low")
        @classmethod
        def _odd(cls, value: int) -> int:
            if value == 13:
                raise RuntimeError("thirteen")
            return value

        @model_validator(mode="after")
        def _ordered(self):
            if self.low > self.high:
                raise ValueError("low is above high")
            return self

    assert check(Range, {"low": 2, "high": 1}) == [("", "Value error, low is above high")]
    assert check(Range, {"low": 13, "high": 14}) == [("", "RuntimeError: thirteen")]


def test_missing_and_surplus_keys_are_named():
    schema = {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {}},
        "required": ["a", "b"],
        "additionalProperties": False,
    }
    assert sorted(check(schema, {"c": 1, "d/e": 2})) == [
        ("/a", "is required"),
        ("/b", "is required"),
        ("/c", "is not a property of this object"),
        ("/d~1e", "is not a property of this object"),
    ]


def test_an_error_inside_an_arm_is_named_by_its_place():
    schema = {"anyOf": [{"type": "null"}, {"type": "object", "properties": {"n": {"type": "integer"}}}]}
    assert places(schema, {"n": "x"}) == ["/n"]


def test_reasons_are_short():
    assert len(check({"enum": [f"option {n}" for n in range(5000)]}, "x")[0][1]) <= 300


def test_aliases_are_the_names():
    class Aliased(BaseModel):
        name: str = Field(alias="full-name")

    target = load(Aliased)
    assert target.form.root.fields[0].name == "full-name"
    assert target.validator.build({"full-name": "x"}).name == "x"
    assert [v.pointer for v in target.validator.check({"name": "x"})] == ["/full-name"]


class Kind(Enum):
    a = "a"
    b = "b"


class Whole(BaseModel):
    kind: Kind
    flag: bool
    number: int = Field(ge=0, le=5)
    words: list[str] = Field(max_length=3)
    text: str | None = None


@settings(max_examples=60, deadline=None)
@given(
    st.fixed_dictionaries(
        {
            "kind": st.sampled_from(["a", "b"]),
            "flag": st.booleans(),
            "number": st.integers(0, 5),
            "words": st.lists(st.text(), max_size=3),
        },
        optional={"text": st.none() | st.text()},
    )
)
def test_what_is_valid_survives_writing_and_building(value):
    validator = load(Whole).validator
    assert validator.check(value) == ()
    built = validator.build(loads(dumps(value)))
    assert built.model_dump(mode="json", exclude_unset=True) == value


@settings(max_examples=60, deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
        lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["kind", "flag", "words"]), inner),
    )
)
def test_checking_never_raises(value):
    assert isinstance(load(Whole).validator.check(value), tuple)
