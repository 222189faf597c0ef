"""The schemas that LangChain takes, each as a form of agentform and as a reader of what fills it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, cast

from langchain_core.utils.pydantic import is_pydantic_v1_subclass
from pydantic import TypeAdapter

from agentform import Tool
from langchain_agentform.errors import langchain_errors
from langchain_agentform.typed_dicts import as_pydantic_reads

__all__ = ["Schema", "function_of", "schema_of", "source_of"]

_PARAMETERS = ("parameters", "input_schema", "inputSchema")
_NOTHING: Mapping[str, Any] = {"type": "object", "properties": {}}
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_./-]+")


@dataclass(frozen=True, kw_only=True)
class Schema:
    """A schema that is filled as an answer or as the arguments of one tool."""

    tool: Tool[..., Any]
    """The form, with its name and description."""
    read: Callable[[str], Any]
    """What JSON text stands for: an instance of the class that was given, or a dict. Raises ValueError."""


def schema_of(given: Any, *, strict: bool | None = None) -> Schema:
    """The schema for a pydantic model, dataclass, TypedDict, JSON Schema or OpenAI-style function.

    `strict` refuses what the schema says and agentform does not know, instead of leaving it out of account.

    Raises:
        ModelInvalidRequestError: it is none of these, or cannot be filled.
    """
    with langchain_errors():
        if isinstance(given, Mapping):
            name, description, parameters = function_of(cast("Mapping[str, Any]", given))
            tool = Tool.from_schema(parameters, name=name, description=description, lenient=not strict)
            return Schema(tool=tool, read=_read_json)
        source = source_of(given)
        tool = Tool.from_schema(source, name=_name(getattr(given, "__name__", "output")), lenient=not strict)
        return Schema(tool=tool, read=_reader(given, source))


def source_of(kind: Any) -> Any:
    """A type as agentform's schema layer reads it best: the type itself wherever that is possible."""
    if isinstance(kind, type) and is_pydantic_v1_subclass(kind):
        return cast("Any", kind).schema()
    return as_pydantic_reads(kind)


def function_of(said: Mapping[str, Any]) -> tuple[str, str, Mapping[str, Any]]:
    """Name, description and parameters of a mapping that describes a function, in whatever style.

    OpenAI's tools and functions, Anthropic's, MCP's and Bedrock's, and a JSON Schema, whose title names it.
    """
    said = said["function"] if said.get("type") == "function" and "function" in said else said
    said = said.get("toolSpec", said)
    if "name" in said:
        parameters: Mapping[str, Any] = next((said[key] for key in _PARAMETERS if key in said), _NOTHING)
        return _name(said["name"]), str(said.get("description") or ""), parameters.get("json", parameters)
    return _name(said.get("title") or "output"), "", said


def _name(text: object) -> str:
    return _NOT_IN_NAMES.sub("_", str(text)).strip("_")[:128] or "output"


def _reader(given: Any, source: Any) -> Callable[[str], Any]:
    if isinstance(given, type) and is_pydantic_v1_subclass(given):
        return lambda text: cast("Any", given).parse_obj(_read_json(text))
    return TypeAdapter(source).validate_json


def _read_json(text: str) -> Any:
    return json.loads(text, parse_constant=_no_constant)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")
