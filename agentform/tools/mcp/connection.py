"""A connection to an MCP server that outlives event loops: it has a thread and a loop of its own.

::

    any loop: call ──▶ portal ──▶ loop of the connection: client ──▶ server
                                   `_hold` owns the client until the server is gone; the next call opens a new one

So tools of a server run from `run_sync`, which starts a loop for each run, as they do from an agent on asyncio or trio.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Mapping
from concurrent.futures import Future
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Self, TypeVar

import anyio
import anyio.abc
import anyio.from_thread

from agentform._util.loops import loop_caller
from agentform._util.text import said
from agentform.errors import ToolError
from agentform.messages import JsonValue
from agentform.tools.mcp.transports import client_maker

__all__ = ["McpConnection", "listed"]

T = TypeVar("T")
_LOG = logging.getLogger("agentform.tools")
_MOST_PAGES = 1000
"""Of a list of tools; a server that goes on has no end."""
_CLOSED = -32000
"""The package's code for a connection that is no more."""


@dataclass
class _OwnedClient:
    """A client, and what ends it."""

    client: Any
    leave: anyio.Event = field(default_factory=anyio.Event)


class McpConnection:
    """A context manager; leaving it ends the connection, and the server's process if it was begun here.

    Raises:
        MissingDependency: the extra "mcp" is not installed.
        InvalidInput: the command is empty or cannot be split into words.
        ToolError: the server is not reached within `connect_s` seconds.
    """

    def __init__(self, source: Any, *, headers: Mapping[str, str], connect_s: float) -> None:
        self.name = _name(source)
        self._make = client_maker(source, headers)
        self._connect_s = connect_s
        self._held: _OwnedClient | None = None
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._portal = stack.enter_context(anyio.from_thread.start_blocking_portal("asyncio", name="agentform-mcp"))
            group = self._portal.wrap_async_context_manager(self._group())
            group.__enter__()
            stack.callback(group.__exit__, None, None, None)  # what goes wrong outside is no business of the group's
            self._portal.call(self._open)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def tools(self) -> list[Any]:
        """The descriptions of the server's tools, as it lists them.

        Raises:
            ToolError: it does not list them.
        """
        return self._portal.call(self._listed)

    async def call(self, name: str, arguments: Mapping[str, JsonValue], *, again: bool) -> Any:
        """What the server answers to a call, from any event loop; cancelling it cancels the call at the server.

        With `again`, a call whose connection broke is made once more.

        Raises:
            ToolError: the server refuses it, the connection broke, or it cannot be opened.
        """
        return await _awaited(self._portal.start_task_soon(self._while_open, name, dict(arguments), again))

    @asynccontextmanager
    async def _group(self) -> AsyncGenerator[None, None]:
        """Where clients are held, in the connection's loop."""
        self._lock = anyio.Lock()
        self._is_open = True
        self._calls: set[anyio.CancelScope] = set()
        async with anyio.create_task_group() as self._tasks:
            yield
            self._is_open = False
            for scope in self._calls:  # a client that ends leaves its calls without an answer
                scope.cancel()
            if self._held is not None:
                self._held.leave.set()

    async def _open(self) -> _OwnedClient:
        """The client that there is, or a new one.

        Raises:
            ToolError: the server is not reached, or the block has been left: nothing would end a new client.
        """
        async with self._lock:
            if not self._is_open:
                raise self._left()
            if self._held is None:
                self._held = await self._opened()
            return self._held

    async def _opened(self) -> _OwnedClient:
        reason = f"no answer within {self._connect_s:g} s"
        with anyio.move_on_after(self._connect_s):
            try:
                return await self._tasks.start(self._hold)
            except Exception as error:
                reason = _reason(error)
        raise ToolError(f"the MCP server {self.name!r} is not reached: {reason}")

    async def _hold(self, *, task_status: anyio.abc.TaskStatus[_OwnedClient]) -> None:
        """Own a client until its server is gone or it is no longer needed."""
        held = None
        ended = anyio.Event()
        try:
            async with self._make(ended.set) as client:
                held = _OwnedClient(client, ended)
                task_status.started(held)
                await held.leave.wait()
                self._forget(held)
        except Exception as error:
            if held is None:
                raise
            _LOG.warning("the connection to the MCP server %r ended: %s", self.name, _reason(error))
        finally:
            if held is not None:
                self._forget(held)

    def _forget(self, held: _OwnedClient) -> None:
        held.leave.set()
        if self._held is held:
            self._held = None

    async def _while_open(self, name: str, arguments: dict[str, Any], again: bool) -> Any:
        with anyio.CancelScope() as scope:
            self._calls.add(scope)
            try:
                return await self._called(name, arguments, again)
            finally:
                self._calls.discard(scope)
        raise self._left()

    def _left(self) -> ToolError:
        return ToolError(f"the connection to the MCP server {self.name!r} is closed: its block has been left")

    async def _called(self, name: str, arguments: dict[str, Any], again: bool) -> Any:
        held = await self._open()
        try:
            return await held.client.call_tool(name, arguments)
        except Exception as error:
            if getattr(error, "code", None) != _CLOSED:
                raise ToolError(f"{name!r} failed: {_reason(error)}") from error
            self._forget(held)
            if again:
                return await self._called(name, arguments, again=False)
            doubt = "whether the tool has run is not known; the next call connects anew"
            raise ToolError(f"the connection to the MCP server {self.name!r} was lost: {doubt}") from error

    async def _listed(self) -> list[Any]:
        held = await self._open()
        reason = f"no answer within {self._connect_s:g} s"
        with anyio.move_on_after(self._connect_s):
            try:
                return await listed(held.client)
            except Exception as error:
                reason = _reason(error)
        raise ToolError(f"the MCP server {self.name!r} does not list its tools: {reason}")


async def listed(session: Any) -> list[Any]:
    """The descriptions of all tools, of all pages.

    Raises:
        ToolError: the pages have no end.
    """
    tools: list[Any] = []
    cursor: str | None = None
    for _ in range(_MOST_PAGES):
        page = await _page(session, cursor)
        tools += page.tools
        cursor = getattr(page, "next_cursor", None) or getattr(page, "nextCursor", None)
        if not cursor:
            return tools
    raise ToolError(f"the list of tools has more than {_MOST_PAGES:,} pages")


async def _page(session: Any, cursor: str | None) -> Any:
    """A page of a client's list, or of a session's, whose method has changed with the package's releases."""
    if cursor is None:
        return await session.list_tools()
    try:
        return await session.list_tools(cursor=cursor)
    except TypeError:
        from mcp.types import PaginatedRequestParams

        return await session.list_tools(params=PaginatedRequestParams(cursor=cursor))


async def _awaited(future: Future[T]) -> T:
    """What a future of another thread brings; it is cancelled where the caller is."""
    done, call_in_loop = anyio.Event(), loop_caller()

    def tell(_: Future[T]) -> None:
        try:
            call_in_loop(done.set)
        except RuntimeError:  # the loop has ended: nobody waits
            return

    future.add_done_callback(tell)
    try:
        await done.wait()
    finally:
        future.cancel()
    return future.result()


def _name(source: Any) -> str:
    if isinstance(source, (list, tuple)):
        return " ".join(map(str, source))
    return source if isinstance(source, str) else type(source).__name__


def _reason(error: BaseException) -> str:
    """What happened, of a group of errors the first one's."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {said(error)}".rstrip(": ")
