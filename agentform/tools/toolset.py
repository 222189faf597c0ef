"""Tools by name, from functions, MCP servers and OpenAPI documents."""

from __future__ import annotations

import difflib
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

from agentform._util.text import unicode_text
from agentform.errors import DuplicateTool, SchemaError, ToolError, UnknownTool, UnsupportedSchema
from agentform.messages import JsonValue
from agentform.tools.openapi import OpenAPIOperation, OperationRequest, operations
from agentform.tools.tool import Tool, tool

__all__ = ["LeftOut", "Toolbox"]


_LOG = logging.getLogger("agentform.tools")


@dataclass(frozen=True, kw_only=True)
class LeftOut:
    """A description that makes no tool."""

    name: str
    reason: str


class Toolbox(Mapping[str, Tool[..., Any]]):
    """Tools by name, in their order; plain functions among them are made into tools.

    Raises:
        DuplicateTool: two share a name.
        UnknownTool: a name is asked for that is not there.
    """

    def __init__(self, tools: Iterable[Callable[..., Any]] = ()) -> None:
        self._tools: dict[str, Tool[..., Any]] = {}
        self.left_out: tuple[LeftOut, ...] = ()
        """What a server described and no tool could be made of."""
        for item in tools:
            self._add(_as_tool(item))

    def _add(self, made: Tool[..., Any]) -> None:
        if made.name in self._tools:
            raise DuplicateTool(f"two tools are named {made.name!r}")
        self._tools[made.name] = made

    @classmethod
    def from_mcp_schema(
        cls,
        tools: Iterable[Mapping[str, Any]],
        *,
        call: Callable[[str, Mapping[str, JsonValue]], Any] | None = None,
        lenient: bool = False,
    ) -> Toolbox:
        """Tools from the descriptions that an MCP server lists: `name`, `description` and `inputSchema`.

        `call(name, arguments)`, plain or async, runs a tool; without it, running one is a `ToolError`. Arguments
        are validated against the raw schema. `lenient` is as in `load`. A description that makes no tool is no reason
        to do without the server's others: it is in `left_out`, with the reason, and in a warning of the log.
        """
        made = cls()
        for said in tools:
            try:
                made._add(_of_mcp(said, call, lenient))
            except (ToolError, SchemaError) as error:
                name = str(said.get("name", "")) if isinstance(said, Mapping) else repr(said)
                made.left_out += (LeftOut(name=name, reason=str(error)),)
                _LOG.warning("the tool %r is left out: %s", name, error)
        return made

    @classmethod
    def from_openapi(
        cls,
        document: Mapping[str, Any],
        *,
        call: Callable[[OperationRequest], Any] | None = None,
        lenient: bool = False,
    ) -> Toolbox:
        """Tools from the operations of an OpenAPI 3.0 or 3.1 document; `operations` tells how they are named.

        `call(request)`, plain or async, sends a request; without it, running a tool is a `ToolError`. `lenient` is
        as in `load`, and leaves out operations whose body cannot be JSON.

        Raises:
            UnsupportedSchema: the schema uses something that agentform does not implement, or is not a schema.
            DuplicateTool: two tools share a name.
        """
        return cls(
            Tool.from_schema(
                found.schema,
                name=found.name,
                description=found.description,
                call=None if call is None else partial(_send, call, found),
                lenient=lenient,
            )
            for found in operations(document, lenient=lenient)
        )

    def __getitem__(self, name: str) -> Tool[..., Any]:
        if name in self._tools:
            return self._tools[name]
        near = difflib.get_close_matches(name, self._tools, n=3) or list(self._tools)[:10]
        hint = f"; there is {', '.join(map(repr, near))}" if near else "; there are no tools"
        raise UnknownTool(f"no tool is named {name!r}{hint}")

    def __contains__(self, name: object) -> bool:
        return name in self._tools

    def __iter__(self) -> Iterator[str]:
        return iter(self._tools)

    def __len__(self) -> int:
        return len(self._tools)

    def definitions(self) -> list[dict[str, Any]]:
        """`Tool.definition` of each tool, in order."""
        return [item.definition() for item in self._tools.values()]


def _of_mcp(
    said: Mapping[str, Any], call: Callable[[str, Mapping[str, JsonValue]], Any] | None, lenient: bool
) -> Tool[..., Any]:
    if not isinstance(said, Mapping):
        raise UnsupportedSchema(f"a tool is described by an object, not by {type(said).__name__}")
    name = str(said.get("name", ""))
    return Tool.from_schema(
        said.get("inputSchema"),
        name=name,
        description=unicode_text(str(said.get("description") or said.get("title") or "")),
        call=None if call is None else partial(call, name),
        lenient=lenient,
    )


def _send(
    call: Callable[[OperationRequest], Any], operation: OpenAPIOperation, arguments: Mapping[str, JsonValue]
) -> Any:
    return call(operation.request(arguments))


def _as_tool(item: Callable[..., Any]) -> Tool[..., Any]:
    return cast("Tool[..., Any]", item) if isinstance(item, Tool) else tool(item)
