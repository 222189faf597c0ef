"""Tools for a chat, by name: functions of a module, or descriptions without an implementation, which the user plays."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from agentform.cli.engine_spec import load_attribute
from agentform.errors import InvalidInput
from agentform.messages import JsonValue
from agentform.tools.tool import Tool
from agentform.tools.toolset import Toolbox

__all__ = ["Ask", "load_tools"]

Ask = Callable[[str, Mapping[str, JsonValue]], Awaitable[str]]
"""Asks the user what a tool returns for these arguments."""


def load_tools(specs: Sequence[str], ask: Ask | None) -> Toolbox:
    """The tools of all specs: `module:attribute` (a function, a list of them or a Toolbox) or an MCP description file.

    `ask` says what the latter return; without it they cannot be run.

    Raises:
        InvalidInput: a spec names nothing, or something else.
        ToolError, SchemaError: what it names cannot be made into tools.
    """
    return Toolbox(item for spec in specs for item in _load(spec, ask))


def _load(spec: str, ask: Ask | None) -> Iterable[Callable[..., Any]]:
    module, separator, attribute = spec.partition(":")
    if not separator or Path(spec).exists():
        return Toolbox.from_mcp_schema(_descriptions(Path(spec)), call=ask, lenient=True).values()
    found = load_attribute(module, attribute)
    if isinstance(found, Toolbox):
        return found.values()
    if isinstance(found, Tool) or callable(found):
        return [found]
    items: list[Any] = list(cast("Iterable[Any]", found)) if isinstance(found, (list, tuple)) else []
    if items and all(map(callable, items)):
        return items
    raise InvalidInput(f"{spec} is no tool: give a function, a list of functions or a Toolbox")


def _descriptions(file: Path) -> Sequence[Mapping[str, Any]]:
    """What an MCP server answers to `tools/list`, the answer's envelope or the list alone."""
    try:
        data: Any = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        wanted = "give module:attribute or an MCP description file"
        raise InvalidInput(f"cannot read {file}: {error.strerror}; {wanted}") from error
    except ValueError as error:
        raise InvalidInput(f"{file} is not JSON: {error}") from error
    for key in ("result", "tools"):
        data = data.get(key, data) if isinstance(data, dict) else data
    if not isinstance(data, list) or not all(isinstance(item, dict) for item in cast("list[Any]", data)):
        raise InvalidInput(f"{file} holds no list of tools: an array, or an object with `tools`, is what it should be")
    return cast("list[dict[str, Any]]", data)
