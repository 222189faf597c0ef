"""Every kind of source loads into a target, or is refused with a reason."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Flag, IntFlag
from typing import Annotated, Literal

import pytest
from pydantic import BaseModel, Field, RootModel
from typing_extensions import TypedDict

from agentform.errors import UnsupportedSchema
from agentform.schema.form import Choice, Free, Record
from agentform.schema.target import load


class Documented(BaseModel):
    """What it is.

    More of it.
    """

    a: int


class Typed(TypedDict, total=False):
    a: Literal["x", "y"]
    b: str


@dataclass
class Point:
    x: int
    y: int = 0


class Names(RootModel[list[str]]):
    pass


class Perm(Flag):
    read = 1
    write = 2


class Bits(IntFlag):
    one = 1


class Secret:
    pass


class Holder(BaseModel):
    inner: "list[dict[str, Perm]]"


def test_model_gives_name_and_description():
    target = load(Documented)
    assert (target.name, target.description) == ("Documented", "What it is.\n\nMore of it.")
    assert (target.form.name, target.form.description) == ("Documented", "What it is.")
    assert load(Documented, name="other").name == "other"


def test_schema_gives_name_and_description():
    target = load({"title": "T", "description": "says", "type": "string"})
    assert (target.name, target.description) == ("T", "says")
    assert load({"type": "string"}).name == "value"


@pytest.mark.parametrize(
    ("source", "kind", "value", "built"),
    [
        (Typed, Record, {"a": "x"}, {"a": "x"}),
        (Point, Record, {"x": 1}, Point(1)),
        (Names, Free, ["n"], Names(["n"])),
        (Literal["a", "b"], Choice, "a", "a"),
        (list[int], Free, [1], [1]),
        (Annotated[int, Field(ge=1, le=3)], Choice, 2, 2),
        (bool | None, Choice, None, None),
        ({"type": "array", "items": {"type": "integer"}}, Free, [1], [1]),
        (True, Free, {"a": [1]}, {"a": [1]}),
    ],
)
def test_sources(source, kind, value, built):
    target = load(source)
    assert isinstance(target.form.root, kind)
    assert target.form.root.path == ()
    assert target.validator.check(value) == ()
    assert target.validator.build(value) == built


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (Perm, "Perm is a Flag"),
        (Bits, "Bits is a Flag"),
        (Holder, "Perm is a Flag"),
        (Callable[[int], int], "Callable"),
        (Secret, "Secret"),
        (5, "5"),
        ("not a type", "not a type|syntax"),
        (list["Nowhere"], "Nowhere"),  # type: ignore[name-defined]  # noqa: F821
    ],
)
def test_types_without_a_schema_are_refused(source, said):
    with pytest.raises(UnsupportedSchema, match=said):
        load(source)


@pytest.mark.parametrize(
    ("schema", "pointer"),
    [
        ({"type": "strnig"}, "/type"),
        ({"properties": {"a": {"type": "object", "required": "a"}}}, "/properties/a/required"),
        ({"properties": {"a": {"minimum": float("nan")}}}, "/properties/a/minimum"),
        ({"properties": {"a": {"enum": {1, 2}}}}, "/properties/a/enum"),
        ({"properties": {"a": {"pattern": "("}}}, "/properties/a/pattern"),
        ({"$ref": 3}, "/$ref"),
    ],
)
def test_what_is_not_a_schema_is_refused_where_it_is_not(schema, pointer):
    with pytest.raises(UnsupportedSchema) as caught:
        load(schema)
    assert caught.value.pointer == pointer


def test_patterns_that_do_not_compile_are_dropped_when_lenient():
    schema = {
        "type": "object",
        "properties": {"a": {"type": "string", "pattern": "\\x{41}"}},
        "patternProperties": {"\\x{41}": {"type": "integer"}},
        "additionalProperties": False,
    }
    target = load(schema, lenient=True)
    assert {r.pointer for r in target.form.relaxed} == {"/properties/a/pattern", "/patternProperties/\\x{41}"}
    assert target.form.schema == schema
    assert target.validator.check({"a": "1", "b": "x"}) == ()


def test_endless_schemas_are_refused():
    schema: dict = {}
    for _ in range(3000):
        schema = {"not": schema}
    with pytest.raises(UnsupportedSchema, match="deep"):
        load(schema)


def test_loading_leaves_the_source_alone():
    schema = {"type": "object", "properties": {"a": {"$ref": "#/$defs/b"}}, "$defs": {"b": {"enum": [1, 2]}}}
    before = repr(schema)
    load(schema)
    assert repr(schema) == before
