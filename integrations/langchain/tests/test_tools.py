"""Tools and schemas of every kind, and what of them must not get lost."""

from __future__ import annotations

import dataclasses
import typing
from typing import Annotated, Any, Literal, NotRequired, Optional

import anyio
import pydantic.v1
import pytest
import typing_extensions
from langchain_core.callbacks import CallbackManagerForToolRun
from langchain_core.exceptions import ModelInvalidRequestError
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import InjectedToolArg, InjectedToolCallId, Tool, tool
from langgraph.prebuilt import InjectedState, InjectedStore, ToolRuntime
from pydantic import BaseModel, Field, model_validator

import agentform
from agentform import UseTool
from agentform.errors import DuplicateTool, UnsupportedSchema, UnsupportedSignature
from langchain_agentform import ChatAgentform
from langchain_agentform.schemas import schema_of
from langchain_agentform.tools import Definition, definitions, toolbox, wanted_choice

ALLOWED_OTHERS = {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "function": {"name": "x"}}]}


class Tree(BaseModel):
    """A tree."""

    value: int
    children: list[Tree] = []


class Range(BaseModel):
    low: int
    high: int

    @model_validator(mode="after")
    def _ordered(self) -> Range:
        if self.low > self.high:
            raise ValueError("low is above high")
        return self


class Person(BaseModel):
    name: str
    age: Annotated[int, Field(ge=0)]


@tool
def grow(tree: Tree, room: Literal["hall", "attic"], secret: Annotated[str, InjectedToolArg] = "") -> str:
    """Grow a tree."""
    return secret


@tool(args_schema=Range)
def between(low: int, high: int) -> int:
    """A number between."""
    return low + high


def parameters(item):
    [definition] = definitions([item])
    return definition["function"]["parameters"]


def test_a_recursive_model_stays_recursive():
    assert parameters(grow)["$defs"]["Tree"]["properties"]["children"]["items"] == {"$ref": "#/$defs/Tree"}
    deep = {"value": 1, "children": [{"value": 2, "children": [{"value": "x"}]}]}
    [definition] = definitions([Tree])
    assert definition.tool.target.validator.check(deep)[0].pointer == "/children/0/children/0/value"


def test_injected_arguments_are_no_part_of_it_and_validators_are():
    assert set(parameters(grow)["properties"]) == {"tree", "room"}
    [definition] = definitions([between])
    assert "low is above high" in definition.tool.target.validator.check({"low": 2, "high": 1})[0].reason
    assert definition.tool.description == "A number between."


OPENAI = {
    "type": "function",
    "function": {"name": "person", "description": "d", "parameters": Person.model_json_schema()},
}


@pytest.mark.parametrize(
    "described",
    [
        OPENAI,
        OPENAI["function"],
        {"name": "person", "description": "d", "input_schema": Person.model_json_schema()},
        {"name": "person", "description": "d", "inputSchema": Person.model_json_schema()},
        {"toolSpec": {"name": "person", "description": "d", "inputSchema": {"json": Person.model_json_schema()}}},
        Person.model_json_schema() | {"title": "person", "description": "d"},
    ],
)
def test_descriptions_of_every_style(described):
    [definition] = definitions([described])
    assert (definition.tool.name, definition.tool.description) == ("person", "d")
    assert definition.tool.target.validator.check({"name": "a", "age": -1})


def test_types_functions_and_tools_of_either_kind():
    def add(a: int, b: int = 1) -> int:
        """Add.

        Args:
            a: The first.
        """
        return a + b

    class Old(pydantic.v1.BaseModel):
        x: int

    found = definitions([Person, add, agentform.tool(name="plus")(add), Old, Tool("ask", lambda q: q, "Ask.")])
    assert [definition.tool.name for definition in found] == ["Person", "add", "plus", "Old", "ask"]
    assert found[1]["function"]["parameters"]["properties"]["a"]["description"] == "The first."
    assert list(found[4]["function"]["parameters"]["properties"]) == ["__arg1"]
    assert [definition.tool for definition in definitions(found)] == [definition.tool for definition in found]


def test_what_is_no_tool_is_refused_and_says_why():
    for item, reason in [
        ({"type": "web_search"}, "runs at its provider"),
        (7, "is no tool"),
        ({"name": "f", "parameters": {"type": "array"}}, "not an object"),
    ]:
        with pytest.raises(ModelInvalidRequestError, match=reason):
            definitions([item])


def test_strict_refuses_what_is_not_understood():
    odd = {"title": "odd", "type": "object", "properties": {"a": {"type": "string", "maxWords": 3}}}
    definitions([odd])
    with pytest.raises(ModelInvalidRequestError, match="maxWords") as caught:
        definitions([odd], strict=True)
    assert isinstance(caught.value, UnsupportedSchema)


def test_the_same_tool_twice_is_one_and_two_of_a_name_are_an_error():
    assert len(definitions([Person, Person.model_json_schema()])) == 1
    with pytest.raises(ModelInvalidRequestError, match="two tools are named 'Person'") as caught:
        definitions([Person, {"title": "Person", "type": "object", "properties": {}}])
    assert isinstance(caught.value, DuplicateTool)


@pytest.mark.parametrize(
    ("said", "choice"),
    [
        (None, "auto"),
        ("auto", "auto"),
        ("any", "required"),
        ("required", "required"),
        (True, "required"),
        ("none", "none"),
        (False, "none"),
        ("Person", UseTool("Person")),
        ({"type": "function", "function": {"name": "Person"}}, UseTool("Person")),
        ({"type": "tool", "name": "Person"}, UseTool("Person")),
        ({"type": "any"}, "required"),
        ({"type": "allowed_tools", "mode": "any", "tools": [{"type": "function", "name": "Person"}]}, "required"),
        ({"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [{"name": "Person"}]}}, "auto"),
    ],
)
def test_the_ways_to_choose_a_tool(said, choice):
    assert wanted_choice(said, toolbox(definitions([Person]))) == choice


@pytest.mark.parametrize("said", ["Persn", 3, {"type": "function", "function": {"name": "x"}}, ALLOWED_OTHERS])
def test_a_choice_of_nothing_names_what_there_is(said):
    with pytest.raises(ModelInvalidRequestError, match="bound tool: 'Person'"):
        ChatAgentform(model="m").bind_tools([Person], tool_choice=said)


def test_a_definition_looks_like_openais_and_compares_by_what_it_says():
    [one], [two] = definitions([Person]), definitions([Person])
    assert isinstance(one, Definition)
    assert one == two
    assert str(one) == str(two)


class Inner(typing_extensions.TypedDict):
    """Part."""

    word: Annotated[str, ..., "a word"]


def outer(typed_dict):
    class Outer(typed_dict):
        """Whole."""

        part: list[Inner]
        maybe: Annotated[Optional[int], None, "a number"]  # noqa: UP045
        other: NotRequired[bool]

    return Outer


@pytest.mark.parametrize("typed_dict", [typing.TypedDict, typing_extensions.TypedDict])
def test_typed_dicts_in_langchains_dialect_keep_descriptions_and_defaults(typed_dict):
    found = schema_of(outer(typed_dict))
    shape = found.tool.definition()["function"]["parameters"]
    assert shape["required"] == ["part"]
    assert shape["properties"]["maybe"]["description"] == "a number"
    assert shape["$defs"]["Inner"]["properties"]["word"]["description"] == "a word"
    assert found.read('{"part": [{"word": "x"}]}') == {"part": [{"word": "x"}]}
    with pytest.raises(ValueError, match="word"):
        found.read('{"part": [{}]}')


def test_schemas_give_back_what_they_are():
    @dataclasses.dataclass
    class Point:
        x: int

    class Old(pydantic.v1.BaseModel):
        x: int

    assert schema_of(Point).read('{"x": 1}') == Point(1)
    assert schema_of(Old).read('{"x": 1}') == Old(x=1)
    assert schema_of({"type": "object", "title": "T"}).read('{"x": 1}') == {"x": 1}
    assert schema_of(Person).read('{"name": "a", "age": 1}') == Person(name="a", age=1)


@pytest.mark.parametrize("text", ['{"x": NaN}', '{"x": 1', "x"])
def test_json_that_is_none_is_no_value(text):
    with pytest.raises(ValueError):  # noqa: PT011
        schema_of({"type": "object", "title": "T"}).read(text)


def by_mark(q: str, user: Annotated[str, InjectedToolArg]) -> str:
    """Asks.

    Args:
        q: what is asked
        user: whose question it is
    """
    return q + user


def by_instance(q: str, user: Annotated[str, InjectedToolArg()]) -> str:
    """Asks."""
    return q + user


def by_call_id(q: str, call: Annotated[str, InjectedToolCallId]) -> str:
    """Asks."""
    return q + call


def by_state(q: str, state: Annotated[dict[str, Any], InjectedState]) -> str:
    """Asks."""
    return q + str(state)


def by_part_of_the_state(q: str, said: Annotated[list[Any], "the messages", InjectedState("messages")]) -> str:
    """Asks."""
    return q + str(said)


def by_store(q: str, store: Annotated[Any, InjectedStore()]) -> str:
    """Asks."""
    return q + str(store)


def by_runtime(q: str, runtime: ToolRuntime) -> str:
    """Asks."""
    return q + str(runtime)


def by_runtime_of_a_kind(q: str, runtime: ToolRuntime[None, dict[str, Any]]) -> str:
    """Asks."""
    return q + str(runtime)


def by_config(q: str, config: RunnableConfig | None = None) -> str:
    """Asks."""
    return q + str(config)


def by_manager(q: str, run_manager: CallbackManagerForToolRun | None = None, callbacks: Any = None) -> str:
    """Asks."""
    return q + str(run_manager or callbacks)


def by_mark_in_a_union(q: str, user: Annotated[str, InjectedToolArg] | None = None) -> str:
    """Asks."""
    return q + (user or "")


class MarkedModel(BaseModel):
    """Asks."""

    q: str
    user: Annotated[str, InjectedToolArg]


class MarkedDict(typing_extensions.TypedDict):
    """Asks."""

    q: str
    user: Annotated[str, InjectedToolArg]


INJECTED = [
    by_mark,
    by_instance,
    by_call_id,
    by_state,
    by_part_of_the_state,
    by_store,
    by_runtime,
    by_runtime_of_a_kind,
    by_config,
    by_manager,
    by_mark_in_a_union,
    MarkedModel,
    MarkedDict,
]


@pytest.mark.parametrize("given", [*INJECTED, *map(tool, INJECTED[:9])], ids=lambda given: type(given).__name__)
def test_what_langchain_fills_in_is_in_no_schema(given):
    [definition] = definitions([given])
    parameters = definition["function"]["parameters"]
    assert list(parameters["properties"]) == ["q"]
    assert "user" not in str(definition["function"]["description"]) or given is not by_mark


@pytest.mark.parametrize("given", INJECTED[:8], ids=lambda given: given.__name__)
def test_an_agent_of_agentforms_own_refuses_what_only_langchain_could_fill_in(given):
    with pytest.raises(UnsupportedSignature, match="filled in by LangChain"):
        agentform.tool(given)


@pytest.mark.parametrize("given", [by_config, by_mark_in_a_union], ids=lambda given: given.__name__)
def test_where_it_may_be_left_out_it_keeps_its_default(given):
    made = agentform.tool(given)
    assert list(made.definition()["function"]["parameters"]["properties"]) == ["q"]
    assert anyio.run(made.run, {"q": "Why?"}).startswith("Why?")
