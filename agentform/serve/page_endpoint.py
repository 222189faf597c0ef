"""`GET /page`: a page that shows turns as they happen, and the tools that it may have run.

The page is three files of this package, nothing else: it asks no other server, keeps nothing, and its policy forbids it
to run or load anything that is not from here. It is a client like any other, with a key if the server has keys; the
files themselves are open, as they say nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from importlib.resources import files
from typing import Any

from pydantic import Field
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from agentform.agent.result_text import error_text, result_text
from agentform.messages import JsonValue
from agentform.serve.exchange import Exchange
from agentform.serve.parsing import Fields, parse
from agentform.serve.problems import bad_request
from agentform.tools.tool import Tool
from agentform.tools.toolset import Toolbox

__all__ = ["PAGE_FILES", "PageEndpoint", "page_file"]

PAGE_FILES = {
    "/page": ("page.html", "text/html"),
    "/page/page.css": ("page.css", "text/css"),
    "/page/page.js": ("page.js", "text/javascript"),
    "/page/parts.js": ("parts.js", "text/javascript"),
}
_HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-cache",
}


async def page_file(request: Request) -> Response:
    """One of the page's files."""
    name, kind = PAGE_FILES[request.url.path.removeprefix(request.scope.get("root_path", ""))]
    text = files("agentform.serve").joinpath("page", name).read_bytes()
    return Response(text, media_type=f"{kind}; charset=utf-8", headers=_HEADERS)


class _ToolRunFields(Fields):
    """A call of a tool."""

    name: str
    arguments: dict[str, Any] = Field(default_factory=dict[str, Any])


class PageEndpoint:
    """What the page asks for beside turns: tools, and what they return."""

    def __init__(self, tools: Toolbox | None, instructions: str) -> None:
        self._tools = tools or Toolbox()
        self._instructions = instructions

    async def tools(self, request: Request) -> Response:
        """`GET /page/tools`: the tools, which of them can be run here, and the instructions."""
        tools = list(self._tools.values())
        runs = [tool.name for tool in tools if tool.is_runnable]
        definitions = [tool.definition() for tool in tools]
        return JSONResponse({"tools": definitions, "runs": runs, "instructions": self._instructions})

    def call(self, body: bytes, exchange: Exchange) -> Callable[[Exchange], Awaitable[None]]:
        """`POST /page/call`: runs a tool.

        Raises:
            Refused: there is no such tool.
        """
        fields = parse(_ToolRunFields, body)
        tool = self._tools.get(fields.name)
        if tool is None or not tool.is_runnable:
            raise bad_request(f"no tool named {fields.name!r} is run here", param="name")

        async def work(exchange: Exchange) -> None:
            await exchange.answer(await _result(tool, fields.arguments))

        return work


async def _result(tool: Tool[..., Any], arguments: dict[str, JsonValue]) -> dict[str, object]:
    try:
        return {"content": result_text(await tool.run(arguments)), "is_error": False}
    except Exception as error:  # a tool's failure is its result, as it is where an agent runs it
        return {"content": error_text(error), "is_error": True}
