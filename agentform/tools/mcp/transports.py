"""How an MCP server is reached: a URL, a command, or what else the `mcp` package takes for one."""

from __future__ import annotations

import shlex
import sys
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from agentform._util.install import install_line
from agentform.errors import InvalidInput, MissingDependency

__all__ = ["client_maker", "is_url"]

MakeClient = Callable[[Callable[[], None]], AbstractAsyncContextManager[Any]]
"""A new client, not yet connected; what it is given is called when the server's process has ended."""


def is_url(source: object) -> bool:
    """Whether it is the address of a server over streamable HTTP."""
    return isinstance(source, str) and source.startswith(("http://", "https://"))


def client_maker(source: Any, headers: Mapping[str, str]) -> MakeClient:
    """How clients of a server are made.

    Raises:
        MissingDependency: the extra "mcp" is not installed.
        InvalidInput: the command is empty or cannot be split into words.
    """
    try:
        import mcp
        from mcp.client.stdio import StdioServerParameters
    except ImportError as error:
        raise MissingDependency(f"MCP servers need the package mcp: {install_line('mcp')}") from error
    if is_url(source):
        return lambda ended: mcp.Client(_over_http(source, headers))
    if isinstance(source, (str, list, tuple)):
        command, *words = _words(source)
        source = StdioServerParameters(command=command, args=words)
    if isinstance(source, StdioServerParameters):
        return lambda ended: mcp.Client(_of_process(source, ended))
    return lambda ended: mcp.Client(source)


def _words(command: Any) -> list[str]:
    try:
        words = shlex.split(command) if isinstance(command, str) else list(map(str, command))
    except ValueError as error:
        raise InvalidInput(f"the command {command!r} of an MCP server cannot be split into words: {error}") from error
    if not words:
        raise InvalidInput("an MCP server is a URL, or a command with its arguments; this one is empty")
    return words


@asynccontextmanager
async def _over_http(url: str, headers: Mapping[str, str]) -> AsyncGenerator[Any, None]:
    from mcp.client.streamable_http import streamable_http_client
    from mcp.shared._httpx_utils import create_mcp_http_client

    async with create_mcp_http_client(headers=dict(headers)) as http:
        async with streamable_http_client(url, http_client=http) as streams:
            yield streams


@asynccontextmanager
async def _of_process(parameters: Any, ended: Callable[[], None]) -> AsyncGenerator[Any, None]:
    """The streams of a process, its messages for people on this program's own stderr."""
    from mcp.client.stdio import stdio_client

    async with stdio_client(parameters, errlog=sys.__stderr__ or sys.stderr) as (reading, writing):
        yield _TellingStream(reading, ended), writing


class _TellingStream:
    """A stream that tells when it is at its end."""

    def __init__(self, stream: Any, ended: Callable[[], None]) -> None:
        self._stream = stream
        self._ended = ended

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    async def __aenter__(self) -> _TellingStream:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self._stream.__aexit__(*error)

    def __aiter__(self) -> _TellingStream:
        return self

    async def __anext__(self) -> Any:
        try:
            return await self._stream.__anext__()
        except StopAsyncIteration:
            self._ended()
            raise
