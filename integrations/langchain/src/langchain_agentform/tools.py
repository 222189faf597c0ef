"""LangChain's tools as agentform's: the schema comes from a tool's own types, not from an OpenAI rendering of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias, cast

from langchain_core.exceptions import ModelInvalidRequestError
from langchain_core.tools import BaseTool
from langchain_core.tools import Tool as OneTextTool
from langchain_core.utils.pydantic import get_fields, is_basemodel_subclass
from typing_extensions import is_typeddict

import agentform
from agentform import Tool, Toolbox, UseTool
from agentform.errors import DuplicateTool
from langchain_agentform.errors import langchain_errors
from langchain_agentform.injected import visible_function, visible_schema
from langchain_agentform.schemas import function_of, schema_of, source_of

__all__ = ["Definition", "ToolChoice", "allowed_names", "definitions", "toolbox", "wanted_choice"]

ToolChoice: TypeAlias = Literal["auto", "none", "required"] | UseTool

_ONE_TEXT = {"type": "object", "properties": {"__arg1": {"type": "string"}}, "required": ["__arg1"]}
"""How LangChain calls a tool that takes one text and has no schema."""
_CHOICES: Mapping[object, ToolChoice] = {
    None: "auto",
    "auto": "auto",
    "any": "required",
    "required": "required",
    True: "required",
    "none": "none",
    False: "none",
}


class Definition(dict[str, Any]):
    """A tool's definition in OpenAI's style, for tracers, middleware and caches, that remembers the tool itself."""

    def __init__(self, tool: Tool[..., Any]) -> None:
        super().__init__(tool.definition())
        self.tool = tool


def definitions(tools: Iterable[Any], *, strict: bool | None = None) -> list[Definition]:
    """The definition of each tool: a LangChain or agentform tool, a type, a function or a description as a mapping.

    One that is given twice, as a type and as its schema say, is kept once.

    Raises:
        ModelInvalidRequestError: one is no tool, its schema cannot be filled, or two of one name differ.
    """
    made: dict[str, Definition] = {}
    with langchain_errors():
        for item in tools:
            definition = item if isinstance(item, Definition) else Definition(_as_tool(item, strict))
            name = definition.tool.name
            if name in made and made[name] != definition:
                raise DuplicateTool(f"two tools are named {name!r}, and they differ")
            made.setdefault(name, definition)
    return list(made.values())


def toolbox(tools: Sequence[Any] | None) -> Toolbox:
    """The tools of a request, which may come from `bind_tools` or as mappings."""
    return Toolbox([definition.tool for definition in definitions(tools or ())])


def wanted_choice(said: object, tools: Toolbox) -> ToolChoice:
    """LangChain's and OpenAI's ways to say which tool to use.

    Raises:
        ModelInvalidRequestError: it is none of them, or names no tool that there is.
    """
    if (listed := _listed(said)) is not None:
        allowed = allowed_names(said, tools)
        said = listed.get("mode", "auto")
        tools = Toolbox([tools[name] for name in allowed or ()])
    if isinstance(said, Mapping):
        said = _name_of(cast("Mapping[str, Any]", said)) or cast("Mapping[str, Any]", said).get("type")
    if isinstance(said, str) and said in tools:
        return UseTool(said)
    if isinstance(said, (str, bool, type(None))) and said in _CHOICES:
        choice = _CHOICES[said]
        return choice if tools or choice != "required" else _refuse(said, tools)
    return _refuse(said, tools)


def allowed_names(said: object, tools: Toolbox) -> tuple[str, ...] | None:
    """The tools that may be called, where the choice is OpenAI's `allowed_tools`; `None`: all of them.

    Raises:
        ModelInvalidRequestError: one is no tool that there is.
    """
    listed = _listed(said)
    if listed is None:
        return None
    asked = listed.get("tools")
    if not isinstance(asked, Sequence) or isinstance(asked, str):
        raise ModelInvalidRequestError(f"allowed_tools needs a list `tools`, got {asked!r}")
    names = [_name_of(tool) for tool in cast("Sequence[object]", asked)]
    for name in names:
        if not isinstance(name, str) or name not in tools:
            _refuse(name, tools)
    return tuple(names)


def _listed(said: object) -> Mapping[str, Any] | None:
    """OpenAI's `allowed_tools`, of chat completions or of Responses."""
    if not isinstance(said, Mapping):
        return None
    fields = cast("Mapping[str, Any]", said)
    return fields.get("allowed_tools", fields) if fields.get("type") == "allowed_tools" else None


def _name_of(said: Any) -> Any:
    """The name in the description of a choice, wherever it stands."""
    if not isinstance(said, Mapping):
        return said
    fields = cast("Mapping[str, Any]", said)
    function = fields.get("function", fields)
    return cast("Mapping[str, Any]", function).get("name") if isinstance(function, Mapping) else function


def _refuse(said: object, tools: Toolbox) -> ToolChoice:
    names = ", ".join(map(repr, tools)) or "none"
    raise ModelInvalidRequestError(
        f"tool_choice {said!r} is not 'auto', 'any', 'required', 'none' nor the name of a bound tool: {names}"
    )


def _as_tool(item: Any, strict: bool | None) -> Tool[..., Any]:
    if isinstance(item, Tool):
        return cast("Tool[..., Any]", item)
    if isinstance(item, BaseTool):
        source = _arguments_of(item)
        return Tool.from_schema(source, name=item.name, description=item.description, lenient=not strict)
    if isinstance(item, Mapping):
        _require_function(cast("Mapping[str, Any]", item))
        return schema_of(item, strict=strict).tool
    if isinstance(item, type) or is_typeddict(item):
        return schema_of(_described(item), strict=strict).tool
    if callable(item):
        return agentform.tool(visible_function(cast("Callable[..., Any]", item)))
    raise ModelInvalidRequestError(f"{item!r} is no tool: give a LangChain tool, a type, a function or its description")


def _described(kind: Any) -> Any:
    """A class, or its description where it has fields that no model writes."""
    schema = visible_schema(kind)
    if schema is None:
        return kind
    return {"name": kind.__name__, "description": inspect.getdoc(kind) or "", "parameters": schema}


def _arguments_of(tool: BaseTool) -> Any:
    """The schema of what a model writes; injected arguments are not among it."""
    if isinstance(tool, OneTextTool) and not tool.args_schema:
        return _ONE_TEXT
    told = tool.tool_call_schema
    if isinstance(told, dict):
        return told
    if (shown := visible_schema(told)) is not None:
        return shown
    own = tool.args_schema
    # The class that LangChain derives for the model has lost the validators of the tool's own.
    if isinstance(own, type) and is_basemodel_subclass(own) and get_fields(own).keys() == get_fields(told).keys():
        return source_of(own)
    return source_of(told)


def _require_function(said: Mapping[str, Any]) -> None:
    kind = said.get("type", "function")
    if kind not in ("function", "object", "custom") and "name" not in said and "properties" not in said:
        raise ModelInvalidRequestError(
            f"a tool of type {kind!r} runs at its provider; agentform calls functions: give name and parameters"
        )
    function_of(said)
