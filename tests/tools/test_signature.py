"""Parameters as a model sees them: aliases, methods, and tools on their way to another process."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Annotated, Never, Protocol, Self

import anyio
import pytest
from pydantic import AliasChoices, AliasPath, Field

from agentform import Toolbox, tool
from agentform.errors import CallRejected, UnsupportedSignature
from agentform.tools.policy import ToolPolicy
from agentform.tools.tool import Tool


def find(
    user: Annotated[int, Field(alias="userId", ge=1)],
    at: Annotated[int, "the place", Field(validation_alias=AliasChoices("where", "place"))] = 1,
    by: int = Field(alias="byWhom", default=2),
    how: Annotated[int | None, Field(validation_alias=AliasPath("howTo"))] = None,
    plain: Annotated[int, Field(serialization_alias="other")] = 4,
) -> str:
    """Finds.

    Args:
        user: whose it is
    """
    return f"{user} {at} {by} {how} {plain}"


def test_an_alias_is_what_the_model_writes_and_the_parameter_what_the_function_gets():
    made = tool(find)
    parameters = made.definition()["function"]["parameters"]
    assert list(parameters["properties"]) == ["userId", "where", "byWhom", "howTo", "plain"]
    assert parameters["required"] == ["userId"]
    assert parameters["properties"]["userId"]["description"] == "whose it is"
    assert parameters["properties"]["where"]["description"] == "the place"
    assert anyio.run(made.run, {"userId": 3}) == "3 1 2 None 4"
    assert anyio.run(made.run, {"userId": 3, "where": 5, "byWhom": 6, "howTo": 7, "plain": 8}) == "3 5 6 7 8"
    [violation] = made.target.validator.check({"userId": 0})
    assert violation.pointer == "/userId"


def test_two_parameters_under_one_name_are_refused():
    def clash(a: Annotated[int, Field(alias="b")], b: int) -> int:
        return a + b

    with pytest.raises(UnsupportedSignature, match="both named 'b'"):
        tool(clash)


def test_a_method_that_is_decorated_says_how_it_becomes_a_tool():
    with pytest.raises(UnsupportedSignature, match=r"tool\(House\(\.\.\.\)\.light\)"):

        class House:
            @tool
            def light(self, on: bool) -> bool:
                return on

    with pytest.raises(UnsupportedSignature, match=r"a classmethod is bound where its class is finished"):

        class Garden:
            @tool
            @classmethod
            def light(cls, on: bool) -> bool:
                return on


def test_the_way_that_it_says_works():
    class House:
        def light(self, on: bool) -> bool:
            return on

        @classmethod
        def garden(cls, on: bool) -> bool:
            return on

        @tool
        @staticmethod
        def cellar(on: bool) -> bool:
            return on

    assert list(Toolbox([House().light, House.garden, House.cellar])) == ["light", "garden", "cellar"]
    assert all(
        anyio.run(each.run, {"on": True}) for each in Toolbox([House().light, House.garden, House.cellar]).values()
    )


@tool(name="renamed", retries=2)
def decorated(n: int) -> int:
    """Doubles."""
    return 2 * n


def triple(n: int) -> int:
    """Triples."""
    return 3 * n


def answer(arguments):
    return arguments["n"]


SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}}


@pytest.mark.parametrize(
    "made",
    [decorated, tool(triple), tool(name="t", timeout_s=3)(triple), Tool.from_schema(SCHEMA, name="s", call=answer)],
)
def test_a_tool_of_a_plain_function_can_be_pickled(made):
    again = pickle.loads(pickle.dumps(made))
    assert (again.name, again.description, again.policy) == (made.name, made.description, made.policy)
    assert again.definition() == made.definition()
    assert anyio.run(again.run, {"n": 2}) == anyio.run(made.run, {"n": 2})


def test_a_toolbox_can_be_pickled():
    assert list(pickle.loads(pickle.dumps(Toolbox([decorated, triple])))) == ["renamed", "triple"]


def test_what_no_other_process_finds_says_so():
    def inside(n: int) -> int:
        return n

    for fn in (inside, lambda: 1):
        with pytest.raises(pickle.PicklingError, match=r"define it at the top of a module"):
            pickle.dumps(tool(name="hidden")(fn))


def test_copies_of_a_tool_are_the_tool():
    assert copy.copy(decorated) is copy.deepcopy(decorated) is decorated


def test_a_tool_that_is_made_a_tool_again_stays_one():
    made = tool(find)
    assert tool(made) == made
    assert tool(name="seek")(made).name == "seek"


def test_a_tool_that_is_made_a_tool_again_takes_the_limits_that_are_given_and_keeps_its_own_else():
    made = tool(timeout_s=3, retries=2)(find)
    assert tool(made, name="seek").policy == made.policy
    assert tool(made, timeout_s=1).policy == ToolPolicy(timeout_s=1)


def test_a_parameter_whose_type_no_model_can_write_is_named():
    def work(count: int, done: Callable[[int], int] | None = None) -> int:
        return count

    with pytest.raises(UnsupportedSignature, match="'done'"):
        tool(work)


def test_a_default_of_none_makes_none_a_value():
    @tool
    def book(
        days: Annotated[int, Field(gt=0, description="how many")] = None,  # noqa: RUF013
        at: list[str] = None,  # noqa: RUF013
    ) -> str:
        """Books."""
        return f"{days} {at}"

    days = book.definition()["function"]["parameters"]["properties"]["days"]
    assert (days["default"], days["description"]) == (None, "how many")
    assert {"type": "null"} in days["anyOf"]
    assert anyio.run(book.run, {"days": None}) == anyio.run(book.run, {}) == "None None"
    with pytest.raises(CallRejected):
        anyio.run(book.run, {"days": 0})


def test_a_type_inside_a_function_is_known_where_the_tool_is_made():
    def make(*, at_once):
        @dataclass
        class Place:
            city: str

        def visit(place: Place) -> str:
            """Visits."""
            return place.city

        return tool(visit) if at_once else visit

    assert anyio.run(make(at_once=True).run, {"place": {"city": "Rome"}}) == "Rome"
    with pytest.raises(UnsupportedSignature, match="make the tool there"):
        tool(make(at_once=False))


class Countable(Protocol):
    def count(self) -> int: ...


@pytest.mark.parametrize(
    ("annotation", "told"),
    [
        (Iterator[int], r"parameter 'a' is .*Iterator\[int\].* take list\[int\]"),
        (list[Callable[[int], int]], "parameter 'a' is .*Callable"),
        (Never, "a type without values"),
        (Countable, "Countable, a protocol"),
        ("Self", "name the class itself"),
        (list[Self], "name the class itself"),
    ],
)
def test_a_type_that_no_model_can_write_is_told_with_what_would_be_right(annotation, told):
    def count(a):
        """Counts."""

    count.__annotations__["a"] = annotation
    with pytest.raises(UnsupportedSignature, match=told):
        tool(count)
