from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field

from agentform.schema.lint import lint
from agentform.schema.target import load


def hints(source):
    return [(hint.pointer, hint.problem) for hint in lint(load(source).form)]


class Closed(BaseModel):
    kind: Literal["a", "b"]
    amount: Annotated[int, Field(ge=0, le=1_000)]
    code: Annotated[str, Field(max_length=5)]
    tags: set[Literal["x", "y"]]
    flag: bool


def test_a_narrow_form_has_no_hints():
    assert hints(Closed) == []


class Item(BaseModel):
    name: Annotated[str, Field(max_length=9)]


class Strict(Item):
    model_config = ConfigDict(extra="forbid")


class Node(BaseModel):
    child: Node | None = None


class Cat(BaseModel):
    lives: Annotated[float, Field(ge=0, le=9)]


class Dog(BaseModel):
    tricks: Annotated[float, Field(ge=0, le=9)]


@pytest.mark.parametrize(
    ("source", "pointer", "problem", "change"),
    [
        (str, "", "text of any length", "maxLength"),
        (Annotated[str, Field(description="One of: red, green")], "", "description lists values", "enum"),
        (int, "", "neither end", "ge"),
        (Annotated[float, Field(ge=0)], "", "one end only", "le"),
        (list[Annotated[str, Field(max_length=3)]], "", "list of any length", "maxItems"),
        (list[Literal["a", "b"]], "", "may be repeated", "uniqueItems"),
        (dict[str, bool], "", "keys are open", "dict[Literal"),
        (Any, "", "anything", "type"),
        (Annotated[list[Item], Field(max_length=3)], "/*", "further keys", 'extra="forbid"'),
        (Cat | Dog, "", "tells apart", "discriminator"),
        (Node, "/child", "recursive", "levels"),
    ],
)
def test_each_open_place_has_a_hint(source, pointer, problem, change):
    found = [hint for hint in lint(load(source).form) if problem in hint.problem]
    assert [hint.pointer for hint in found] == [pointer]
    assert change in found[0].change


@pytest.mark.parametrize(
    "source",
    [
        Annotated[list[Strict], Field(max_length=3)],
        Annotated[str, Field(pattern="^a+$")],
        {"type": "string", "format": "date"},
        {"type": "integer", "exclusiveMinimum": 0, "maximum": 500},
    ],
)
def test_what_is_constrained_already_has_none(source):
    assert hints(source) == []
