"""The tools of one MCP server, while one is connected to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any, Generic, Protocol

import anyio.to_thread
from typing_extensions import TypeVar

from agentform.errors import InvalidInput
from agentform.messages import JsonValue
from agentform.tools.mcp.connection import McpConnection, listed
from agentform.tools.mcp.results import as_json, returned, runs_twice

__all__ = ["McpTools"]

T_co = TypeVar("T_co", covariant=True)


class _Build(Protocol[T_co]):
    """Makes tools of descriptions."""

    def __call__(self, tools: Sequence[Any], *, call: Callable[[str, Mapping[str, JsonValue]], Any]) -> T_co: ...


class McpTools(Generic[T_co]):
    """`async with` it, or `with` it outside of an event loop; what it gives are the tools, for use inside the block."""

    def __init__(self, source: Any, build: _Build[T_co], *, headers: Mapping[str, str], connect_s: float) -> None:
        self._session = source if callable(getattr(source, "call_tool", None)) and _is_session(source) else None
        self._build = build
        self._connection = None
        if self._session is None:
            self._connection = McpConnection(source, headers=headers, connect_s=connect_s)
        self._stack = ExitStack()

    def __enter__(self) -> T_co:
        if self._connection is None:
            raise InvalidInput("a session belongs to its event loop: use `async with Toolbox.from_mcp(session)`")
        with ExitStack() as stack:
            connection = stack.enter_context(self._connection)
            descriptions = [as_json(said) for said in connection.tools()]
            again = {said.get("name") for said in descriptions if runs_twice(said)}
            made = self._build(descriptions, call=partial(_call, connection, again))
            self._stack = stack.pop_all()
        return made

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    async def __aenter__(self) -> T_co:
        if self._session is None:
            return await anyio.to_thread.run_sync(self.__enter__)
        return self._build(list(map(as_json, await listed(self._session))), call=partial(_call_session, self._session))

    async def __aexit__(self, *error: object) -> None:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(self._stack.close)


async def _call(connection: McpConnection, again: set[str], name: str, arguments: Mapping[str, JsonValue]) -> JsonValue:
    return returned(name, await connection.call(name, arguments, again=name in again))


async def _call_session(session: Any, name: str, arguments: Mapping[str, JsonValue]) -> JsonValue:
    return returned(name, await session.call_tool(name, dict(arguments)))


def _is_session(source: Any) -> bool:
    """A server that runs in this process has `call_tool` too; what only sessions and clients have is `complete`."""
    return callable(getattr(source, "complete", None)) or callable(getattr(source, "initialize", None))
