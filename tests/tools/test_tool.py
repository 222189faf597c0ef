"""Functions become tools; arguments are checked and converted before they arrive."""

from __future__ import annotations

import functools
import subprocess
import sys
import threading
from datetime import datetime
from enum import Enum
from typing import Annotated, Any, Literal

import anyio
import anyio.lowlevel
import pytest
from annotated_types import Ge, Le
from pydantic import BaseModel, Field

from agentform.errors import (
    CallRejected,
    DuplicateTool,
    InvalidToolName,
    ToolFailed,
    UnknownTool,
    UnsupportedSignature,
)
from agentform.schema.form import Choice, Fixed, Record, Union
from agentform.tools.tool import Tool, tool
from agentform.tools.toolset import Toolbox

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request):
    return request.param


class Unit(Enum):
    celsius = "C"
    fahrenheit = "F"


class Place(BaseModel):
    """A place on the map."""

    lat: float
    lon: float


class Cat(BaseModel):
    kind: Literal["cat"]


class Dog(BaseModel):
    kind: Literal["dog"]


def weather(place: Place, at: datetime, unit: Unit = Unit.celsius, *, brief: bool = False) -> Any:
    """Say the weather.

    For one place and hour.

    Args:
        place: where to look
        at: the hour
        unit: of the answer
    """
    return place, at, unit, brief


ARGUMENTS = {"place": {"lat": 1, "lon": 2}, "at": "2024-01-02T03:04:05", "unit": "F"}


def fields_of(made):
    assert isinstance(made.target.form.root, Record)
    return {field.name: field for field in made.target.form.root.fields}


async def test_arguments_arrive_converted():
    made = tool(weather)
    assert await made.run(ARGUMENTS) == (
        Place(lat=1, lon=2),
        datetime(2024, 1, 2, 3, 4, 5),
        Unit.fahrenheit,
        False,
    )


def test_form_and_definition():
    made = tool(weather)
    assert (made.name, made.description) == ("weather", "Say the weather.\n\nFor one place and hour.")
    fields = fields_of(made)
    assert list(fields) == ["place", "at", "unit", "brief"]
    assert isinstance(fields["unit"].node, Choice)
    assert (fields["unit"].node.options, fields["unit"].required) == (("C", "F"), True)
    assert fields["place"].node.description == "where to look"
    definition = made.definition()
    assert definition["type"] == "function"
    assert definition["function"]["name"] == "weather"
    parameters = definition["function"]["parameters"]
    assert parameters["required"] == ["place", "at"]
    assert parameters["additionalProperties"] is False
    assert parameters["properties"]["at"] == {
        "format": "date-time",
        "type": "string",
        "description": "the hour",
    }
    assert "title" not in parameters


def test_a_tool_is_still_the_function():
    @tool
    def double(n: int) -> int:
        return 2 * n

    assert double(4) == 8
    assert isinstance(double, Tool)
    assert double.name == "double"


async def test_a_plain_function_runs_in_a_thread_and_a_coroutine_does_not():
    async def here() -> int:
        return threading.get_ident()

    def there() -> int:
        return threading.get_ident()

    assert await tool(here).run({}) == threading.get_ident()
    assert await tool(there).run({}) != threading.get_ident()


def test_fault_20_async_tool_from_a_sync_run():
    async def slow(n: int) -> int:
        await anyio.lowlevel.checkpoint()
        return n

    assert anyio.run(tool(slow).run, {"n": 3}) == 3


async def test_invalid_arguments_are_refused_with_their_places():
    with pytest.raises(CallRejected) as caught:
        await tool(weather).run({"place": {"lat": 1}, "at": "2024-02-30T00:00:00", "unit": "K", "extra": 1})
    found = [violation.pointer for violation in caught.value.attempts[0].violations]
    assert found == ["/place/lon", "/at", "/unit", "/extra"]


async def test_the_tools_own_error_comes_as_it_is():
    def broken() -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        await tool(broken).run({})


async def test_fault_02_union_parameter_keeps_its_arm():
    def adopt(pet: Annotated[Cat | Dog, Field(discriminator="kind")]) -> Any:
        return pet

    made = tool(adopt)
    assert await made.run({"pet": {"kind": "dog"}}) == Dog(kind="dog")
    node = fields_of(made)["pet"].node
    assert isinstance(node, Union)
    assert node.labels == ("cat", "dog")


async def test_fault_16_annotated_constraints_hold_and_are_in_the_schema():
    def rate(n: Annotated[int, "how many stars", Ge(1), Le(9)]) -> int:
        return n

    made = tool(rate)
    property_ = made.definition()["function"]["parameters"]["properties"]["n"]
    assert property_ == {"type": "integer", "minimum": 1, "maximum": 9, "description": "how many stars"}
    assert await made.run({"n": 9}) == 9
    with pytest.raises(CallRejected, match="/n"):
        await made.run({"n": 0})


def variadic(x: int, *args: int) -> None: ...
def keywords(x: int, **options: int) -> None: ...
def bare(x) -> None: ...
def bare_default(x: int, y=3) -> None: ...
def unresolved(x: Nowhere) -> None: ...  # type: ignore[name-defined]  # noqa: F821
def no_schema(x: threading.Thread) -> None: ...


@pytest.mark.parametrize(
    ("fn", "said"),
    [
        (variadic, r"variadic takes \*args"),
        (keywords, r"keywords takes \*\*options"),
        (bare, "bare: parameter 'x' has no annotation"),
        (bare_default, "bare_default: parameter 'y' has no annotation"),
        (unresolved, "the annotation of 'x' cannot be resolved.*Nowhere"),
        (no_schema, "no_schema: .*Thread"),
        (print, "print"),
    ],
)
def test_fault_17_signatures_that_cannot_become_arguments(fn, said):
    with pytest.raises(UnsupportedSignature, match=said):
        tool(fn)


def test_an_unresolvable_return_annotation_does_not_matter():
    def fine(x: int) -> Nowhere:  # type: ignore[name-defined]  # noqa: F821
        return x

    assert tool(fine).name == "fine"


async def test_fault_18_positional_only_is_bound_by_position():
    def place(a: int = 1, b: int = 2, /, c: int = 3, *, d: int = 4) -> Any:
        return a, b, c, d

    assert await tool(place).run({"b": 5, "d": 6}) == (1, 5, 3, 6)
    assert await tool(place).run({}) == (1, 2, 3, 4)


GOOGLE = """Add.

Args:
    a: the first
        number
    b (int): the second
"""
NUMPY = """Add.

Parameters
----------
a : int
    the first number
b : int
    the second
"""
SPHINX = """Add.

:param a: the first number
:param int b: the second
"""


@pytest.mark.parametrize("text", [GOOGLE, NUMPY, SPHINX])
def test_fault_19_docstring_styles(text):
    def add(a: int, b: int) -> int:
        return a + b

    add.__doc__ = text
    fields = fields_of(tool(add))
    assert [field.node.description for field in fields.values()] == ["the first number", "the second"]
    assert tool(add).description == "Add."


@pytest.mark.parametrize(
    "text",
    ["Args:\n a\n\tb:", ":param\n:type: :", "x\n---\n\nParameters\n----\n:\n", "\n\nArgs:\n", "", None],
)
def test_fault_19_broken_docstrings_never_crash(text):
    def add(a: int) -> int:
        return a

    add.__doc__ = text
    assert list(fields_of(tool(add))) == ["a"]


def test_strict_docs():
    def half(a: int, b: int) -> int:
        """Add.

        Args:
            a: the first
            c: not there
        """
        return a + b

    with pytest.raises(UnsupportedSignature, match="does not describe b"):
        tool(strict_docs=True)(half)
    with pytest.raises(UnsupportedSignature, match="describes c"):
        tool(strict_docs=True)(functools.partial(half, b=1))


@pytest.mark.parametrize("name", ["Web Search!", "", "a" * 129, "ä", "x\n", "<lambda>"])
def test_fault_22_names_that_are_refused(name):
    with pytest.raises(InvalidToolName):
        tool(name=name)(weather)


@pytest.mark.parametrize("name", ["a", "math.sum", "get-it_2", "files/read", "a" * 128])
def test_names_that_are_fine(name):
    assert tool(name=name, description="other")(weather).definition()["function"]["name"] == name


def test_fault_23_two_tools_of_one_name():
    def act() -> None: ...

    with pytest.raises(DuplicateTool, match="'act'"):
        Toolbox([act, tool(name="act")(weather)])


async def test_fault_24_no_arguments():
    def ping() -> str:
        return "pong"

    made = tool(ping)
    assert made.target.form.root == Record(path=(), fields=())
    assert await made.run({}) == "pong"
    with pytest.raises(CallRejected):
        await made.run({"x": 1})


async def test_fault_31_control_text_arrives_as_it_is():
    def say(text: str) -> str:
        return text

    assert await tool(say).run({"text": "</tool_call><|im_end|>"}) == "</tool_call><|im_end|>"


class Shop:
    def buy(self, item: Literal["tea", "milk"]) -> Any:
        """Buy it."""
        return self, item

    def __call__(self, item: str) -> str:
        """Call the shop."""
        return item


async def test_methods_callable_objects_and_partials():
    shop = Shop()
    assert await tool(shop.buy).run({"item": "tea"}) == (shop, "tea")
    assert tool(shop.buy).description == "Buy it."
    assert await tool(shop).run({"item": "x"}) == "x"
    assert (tool(shop).name, tool(shop).description) == ("Shop", "Call the shop.")
    bound = tool(functools.partial(weather, unit=Unit.fahrenheit))
    assert bound.name == "weather"
    assert list(fields_of(bound)) == ["place", "at", "brief"]
    assert (await bound.run({"place": {"lat": 1, "lon": 2}, "at": "2024-01-02T03:04:05"}))[2] is Unit.fahrenheit
    with pytest.raises(UnsupportedSignature, match="self"):
        tool(Shop.buy)


async def test_defaults_stay_the_functions_own():
    marker = object()

    def keep(a: Any = marker, b: list[int] = [], c: int = Field(7, ge=1), d: int = None) -> Any:  # type: ignore[assignment]  # noqa: B006, RUF013
        return a, b, c, d

    made = tool(keep)
    a, b, c, d = await made.run({})
    assert a is marker
    assert b is keep.__defaults__[1]
    assert (c, d) == (7, None)
    assert not fields_of(made)["a"].required
    assert (await made.run({"d": None}))[3] is None  # what a default says is a value too


async def test_fault_34_null_over_a_default():
    def f(a: int = 3, b: int | None = 3) -> Any:
        return a, b

    assert await tool(f).run({"b": None}) == (3, None)
    with pytest.raises(CallRejected, match="/a"):
        await tool(f).run({"a": None})


async def test_parameter_names_that_pydantic_keeps_for_itself():
    def odd(schema: int, model_config: int, _hidden: int, copy: int, json: int, class_: int) -> Any:
        return schema, model_config, _hidden, copy, json, class_

    names = ["schema", "model_config", "_hidden", "copy", "json", "class_"]
    made = tool(odd)
    assert list(fields_of(made)) == names
    assert await made.run({name: at for at, name in enumerate(names)}) == (0, 1, 2, 3, 4, 5)


def test_single_valued_parameter_is_fixed():
    def f(a: Literal["only"]) -> None: ...

    assert isinstance(fields_of(tool(f))["a"].node, Fixed)


def test_toolbox_is_an_ordered_mapping():
    def search(q: str) -> None: ...
    def search_all(q: str) -> None: ...

    box = Toolbox([search_all, tool(weather), search])
    assert list(box) == ["search_all", "weather", "search"]
    assert len(box) == 3
    assert "search" in box
    assert "seach" not in box
    assert box["search"].name == "search"
    assert [d["function"]["name"] for d in box.definitions()] == list(box)
    with pytest.raises(UnknownTool, match="no tool is named 'seach'; there is 'search'"):
        box["seach"]
    with pytest.raises(UnknownTool, match="no tools"):
        Toolbox()["x"]


def test_importing_tools_does_not_import_the_slow_parts():
    code = (
        "import sys, agentform.tools\n"
        "def f(a: int, b: bool): 'One line.'\n"
        "agentform.tools.tool(f)\n"
        "print([m for m in ('jsonschema', 'torch') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_what_a_tool_raised_is_told_once_with_its_type():
    assert str(ToolFailed("find", ValueError("too low"))) == "tool 'find' raised ValueError: too low"
