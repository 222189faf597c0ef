"""Tools by name, from functions, MCP servers and OpenAPI documents."""

from __future__ import annotations

import difflib
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

from agentform._util.text import unicode_text
from agentform.errors import DuplicateTool, SchemaError, ToolError, UnknownTool, UnsupportedSchema
from agentform.messages import JsonValue
from agentform.tools.mcp.results import as_json
from agentform.tools.mcp.tools import McpTools
from agentform.tools.openapi import OpenAPIOperation, OperationRequest, operations
from agentform.tools.policy import ToolPolicy
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
        tools: Iterable[Any],
        *,
        call: Callable[[str, Mapping[str, JsonValue]], Any] | None = None,
        lenient: bool = False,
    ) -> Toolbox:
        """Tools from the descriptions that an MCP server lists: `name`, `description` and `inputSchema`.

        They may be objects, or the `Tool`s of the package `mcp`; `from_mcp` gets them, and makes the calls.
        `call(name, arguments)`, plain or async, runs a tool; without it, running one is a `ToolError`. Arguments
        are validated against the raw schema. `lenient` is as in `load`. A description that makes no tool is no reason
        to do without the server's others: it is in `left_out`, with the reason, and in a warning of the log.
        """
        made = cls()
        for said in map(as_json, tools):
            try:
                made._add(_of_mcp(said, call, lenient))
            except (ToolError, SchemaError) as error:
                name = str(cast("Mapping[str, Any]", said).get("name", "")) if isinstance(said, Mapping) else repr(said)
                made.left_out += (LeftOut(name=name, reason=str(error)),)
                _LOG.warning("the tool %r is left out: %s", name, error)
        return made

    @classmethod
    def from_mcp(
        cls,
        source: Any,
        *,
        headers: Mapping[str, str] | None = None,
        connect_s: float = 30.0,
        timeout_s: float | None = 300.0,
        lenient: bool = False,
    ) -> McpTools[Toolbox]:
        """The tools of an MCP server, inside ``async with``, or inside ``with`` where no event loop runs.

        ::

            with Toolbox.from_mcp("python my_server.py") as tools:
                Agent(engine, tools=tools.values()).run_sync("What is new?")

        `source` is a URL (streamable HTTP, with `headers`), a command with its arguments (a text or a list; its process
        is started, and ends with the block), a session or client of the package `mcp` that is open and stays its
        owner's, or a server object in this process. A call that is cancelled is cancelled at the server; one takes
        `timeout_s` seconds at most. When the server is gone, the next call connects anew; a call that was under way is
        made again only where the server says that this does no harm. What a tool returns is its structured content,
        else its text; the tools are those listed when the block was entered. `lenient` and what is left out are as
        in `from_mcp_schema`.

        Raises:
            MissingDependency: the extra "mcp" is not installed.
            InvalidInput: the command is empty; or, when the block is entered, a session is used without `async with`.
            ToolError: then too, the server is not reached, or does not list its tools, within `connect_s` seconds.
        """
        build = partial(_boxed, cls, timeout_s, lenient)
        return McpTools(source, build, headers=headers or {}, connect_s=connect_s)

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


def _boxed(
    cls: type[Toolbox],
    timeout_s: float | None,
    lenient: bool,
    tools: Iterable[Any],
    *,
    call: Callable[[str, Mapping[str, JsonValue]], Any],
) -> Toolbox:
    """The tools of a server that is connected, within the time that a call may take."""
    described = cls.from_mcp_schema(tools, call=call, lenient=lenient)
    policy = ToolPolicy(timeout_s=timeout_s)
    made = cls(replace(item, policy=policy) for item in described.values())
    made.left_out = described.left_out
    return made


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
