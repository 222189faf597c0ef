"""`agentform mcp`: `fill` and `decide` as tools of an MCP server, for whatever speaks MCP."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import anyio
from rich.console import Console

from agentform._util.install import install_line
from agentform._util.paths import cache_home
from agentform.cli.engine_settings import EngineSettings
from agentform.cli.loading import opened
from agentform.cli.version import own_version
from agentform.errors import AgentformError, MissingDependency
from agentform.forms.decide import decide
from agentform.forms.fill import fill
from agentform.forms.label_prior import PriorStore
from agentform.runtime.engine import Engine
from agentform.schema.json_text import loads, to_jsonable

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer

__all__ = ["forms_server", "serve_forms"]


def serve_forms(console: Console, model: str, *, port: int | None, engine: EngineSettings | None = None) -> None:
    """Serve over stdin and stdout, or over streamable HTTP at a port of this machine, until told to stop.

    Raises:
        MissingDependency: the extra "mcp" is not installed.
        EngineError: the model cannot be loaded.
    """
    _require_mcp()
    loaded = opened(console, model, engine)
    server = forms_server(loaded)

    async def run() -> None:
        try:
            if port is None:
                await server.run_stdio_async()
            else:
                await server.run_streamable_http_async(port=port)
        finally:
            with anyio.CancelScope(shield=True):
                await loaded.aclose()

    anyio.run(run)


def forms_server(engine: Engine) -> MCPServer[Any]:
    """The server; the engine stays its owner's.

    Raises:
        MissingDependency: the extra "mcp" is not installed.
    """
    _require_mcp()
    from mcp.server.mcpserver import MCPServer
    from mcp.types import ToolAnnotations

    server: MCPServer[Any] = MCPServer("agentform", version=own_version(), log_level="WARNING")
    tools = _FormTools(engine, PriorStore(cache_home() / "priors"))
    harmless = ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False)
    server.add_tool(tools.fill, annotations=harmless)
    server.add_tool(tools.decide, annotations=harmless)
    return server


class _FormTools:
    """What the server offers."""

    def __init__(self, engine: Engine, priors: PriorStore) -> None:
        self._engine = engine
        self._priors = priors

    # Named as MCP clients see them: the dictionaries that these return are structured content.
    async def fill(self, text: str, schema: dict[str, Any], instructions: str = "") -> dict[str, Any]:
        """Fill a form from a text: the value satisfies the JSON Schema, closed values are chosen by probability.

        Args:
            text: What the values are taken from.
            schema: A JSON Schema of an object.
            instructions: What else to keep in mind.
        """
        async with _told():
            filled = await fill(self._engine, text, schema, instructions=instructions, priors=self._priors)
        evidence = [to_jsonable(asdict(item)) for item in filled.evidence]
        return {"value": loads(filled.json_text), "evidence": evidence}

    async def decide(self, text: str, questions: dict[str, dict[str, Any]], instructions: str = "") -> dict[str, Any]:
        """Answer closed questions about a text, with the probability of each answer; no token is written.

        Args:
            text: What the questions are about.
            questions: By name. Each has `type` ("noul" for yes or no, "choice", or "score"), `instructions` (the
                question), and `criteria`: for "choice" a map or list of options, for "score" two levels at least.
            instructions: What else to keep in mind.
        """
        async with _told():
            asked: Any = questions
            decisions = await decide(self._engine, text, asked, instructions=instructions, priors=self._priors)
        return {name: to_jsonable(asdict(decision)) for name, decision in decisions.decided.items()}


@asynccontextmanager
async def _told() -> AsyncGenerator[None, None]:
    """What the caller did wrong, or the model could not do, as an error that it reads."""
    from mcp.server.mcpserver.exceptions import ToolError

    try:
        yield
    except AgentformError as error:
        raise ToolError(f"{type(error).__name__}: {error}") from error


def _require_mcp() -> None:
    try:
        import mcp  # noqa: F401
    except ImportError as error:
        raise MissingDependency(f"agentform mcp needs its extra: {install_line('mcp')}") from error
