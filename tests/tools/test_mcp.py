"""Toolboxes of real MCP servers: in this process, over a pipe, over HTTP."""

from __future__ import annotations

import socket
import sys
from contextlib import contextmanager
from pathlib import Path

import anyio
import pytest
import uvicorn
from mcp import Client, ClientSession
from mcp.client._memory import InMemoryTransport
from mcp.server.mcpserver import MCPServer
from mcp.types import ToolAnnotations

from agentform.agent.agent import Agent
from agentform.errors import InvalidInput, ToolError
from agentform.testing import Call, Say, ScriptedEngine
from agentform.tools.toolset import Toolbox
from tests.support.waiting import PATIENCE_S, background, eventually, wait_until

PROCESS = """
import os, sys
from pathlib import Path
from mcp.server.mcpserver import MCPServer
from mcp.types import ToolAnnotations

server = MCPServer("desk", log_level="CRITICAL")
Path(sys.argv[1]).open("a").write(f"{os.getpid()}\\n")

@server.tool()
def order(number: int) -> str:
    return f"order {number}"

@server.tool()
def leave() -> str:
    os._exit(3)

@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def leave_once() -> str:
    if len(Path(sys.argv[1]).read_text().split()) == 2:
        os._exit(3)
    return "stayed"

server.run("stdio")
"""


def desk() -> MCPServer:
    server = MCPServer("desk", log_level="CRITICAL")
    server.seen = []

    @server.tool()
    def place(room: str) -> dict[str, list[int]]:
        """Where a room is."""
        return {"floor": [len(room)]}

    @server.tool()
    def say(text: str):
        return [text, "and more"]

    @server.tool()
    def refuse() -> str:
        from mcp.server.mcpserver.exceptions import ToolError

        raise ToolError("there is no such order")

    @server.tool(annotations=ToolAnnotations(read_only_hint=True))
    async def wait() -> str:
        server.seen.append("began")
        try:
            await anyio.sleep_forever()
        finally:
            server.seen.append("ended")

    @server.tool(name="not a name")
    def unnamed() -> str:
        return ""

    return server


def result(toolbox, name, **arguments):
    return anyio.run(toolbox[name].run, arguments)


def test_tools_of_a_server_are_called_from_any_loop_and_what_makes_no_tool_is_left_out(caplog):
    with Toolbox.from_mcp(desk()) as tools:
        assert list(tools) == ["place", "say", "refuse", "wait"]
        assert [item.name for item in tools.left_out] == ["not a name"]
        assert tools["place"].description == "Where a room is."
        assert result(tools, "place", room="cellar") == {"floor": [6]}
        assert result(tools, "say", text="a") == "a\nand more"
        with pytest.raises(ToolError, match="no such order"):
            result(tools, "refuse")
        engine = ScriptedEngine([Call("place", {"room": "attic"}), Say("Up.")])
        ran = Agent(engine, tools=tools.values()).run_sync("Where?")
        assert ran.messages[2].content == '{"floor": [5]}'


@pytest.mark.anyio
async def test_a_cancelled_call_is_cancelled_at_the_server():
    server = desk()
    async with Toolbox.from_mcp(server) as tools:
        async with anyio.create_task_group() as group:
            group.start_soon(tools["wait"].run, {})
            await eventually(lambda: "began" in server.seen)
            group.cancel_scope.cancel()
        await eventually(lambda: "ended" in server.seen)


@pytest.mark.anyio
async def test_a_call_that_is_under_way_when_the_block_is_left_ends_and_opens_no_new_connection():
    server, failed = desk(), []

    async def wait(tool):
        try:
            await tool.run({})
        except ToolError as error:
            failed.append(str(error))

    async with anyio.create_task_group() as group:
        async with Toolbox.from_mcp(server) as tools:
            group.start_soon(wait, tools["wait"])
            await eventually(lambda: "began" in server.seen)
    assert len(failed) == 1
    assert "its block has been left" in failed[0]
    assert server.seen == ["began", "ended"]


@pytest.mark.anyio
async def test_an_open_client_or_session_stays_its_owners():
    async with Client(desk()) as client:
        async with Toolbox.from_mcp(client) as tools:
            assert await tools["place"].run({"room": "a"}) == {"floor": [1]}
        assert Toolbox.from_mcp_schema((await client.list_tools()).tools)["say"].name == "say"
    async with InMemoryTransport(desk()) as streams, ClientSession(*streams) as session:
        await session.initialize()
        async with Toolbox.from_mcp(session) as tools:
            assert await tools["place"].run({"room": "ab"}) == {"floor": [2]}
        with pytest.raises(InvalidInput, match="async with"):
            Toolbox.from_mcp(session).__enter__()


def test_a_process_is_started_again_when_it_has_died_and_ends_with_the_block(tmp_path):
    (tmp_path / "desk.py").write_text(PROCESS)
    begun = tmp_path / "begun"
    with Toolbox.from_mcp([sys.executable, tmp_path / "desk.py", begun]) as tools:
        assert result(tools, "order", number=1) == "order 1"
        with pytest.raises(ToolError, match="whether the tool has run is not known"):
            result(tools, "leave")
        assert result(tools, "order", number=2) == "order 2"
        assert result(tools, "leave_once") == "stayed"
        processes = begun.read_text().split()
    assert len(processes) == 3
    assert not any(Path("/proc", number).exists() for number in processes)


def test_a_server_over_http_that_is_gone_is_found_again():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
        with serving(listener), Toolbox.from_mcp(url) as tools:
            assert result(tools, "place", room="abc") == {"floor": [3]}
        with serving(listener), Toolbox.from_mcp(url) as tools:
            assert result(tools, "place", room="abcd") == {"floor": [4]}


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("http://127.0.0.1:9/mcp", "not reached"),
        ("no-such-command-anywhere", "not reached"),
        ([sys.executable, "-c", "print('no JSON')"], "not reached"),
    ],
)
def test_what_is_no_server_is_said_to_be_none(source, reason):
    with pytest.raises(ToolError, match=reason):
        Toolbox.from_mcp(source, connect_s=PATIENCE_S / 4).__enter__()


def test_an_empty_command_is_refused():
    with pytest.raises(InvalidInput, match="this one is empty"):
        Toolbox.from_mcp(" ")


@contextmanager
def serving(listener):
    app = desk().streamable_http_app()
    server = uvicorn.Server(uvicorn.Config(app, log_level="critical", timeout_graceful_shutdown=1))
    with background(lambda: anyio.run(server.serve, [listener.dup()])):
        try:
            wait_until(lambda: server.started, "the start of the server")
            yield
        finally:
            server.should_exit = True
