"""`agentform serve`: loads a model, says where it listens, and serves it until it is told to stop."""

from __future__ import annotations

import logging
import socket
import time

import anyio
from rich.console import Console

from agentform._util.install import install_line
from agentform._util.paths import cache_home
from agentform.cli.engine_settings import EngineSettings
from agentform.cli.loading import opened
from agentform.cli.safe_text import SafeText
from agentform.deciders import load_decider
from agentform.errors import InvalidInput, MissingDependency
from agentform.forms.label_prior import PriorStore
from agentform.serve.settings import ServerSettings
from agentform.tools.toolset import Toolbox

__all__ = ["serve_model"]

_LINE = "%(asctime)s %(levelname)s %(message)s"


def serve_model(
    console: Console,
    model: str,
    settings: ServerSettings,
    *,
    engine: EngineSettings | None = None,
    decider: str | None = None,
    tools: Toolbox | None = None,
    own_tools: Toolbox | None = None,
    page_key: str = "",
    instructions: str = "",
) -> None:
    """Serve until SIGINT or SIGTERM.

    `engine` says how the model is loaded; `decider` is the address of a decision model.

    `own_tools` are offered to every request and run here. `tools` are run for the page, which begins with
    `instructions`; `page_key` is what its address ends with.

    Raises:
        MissingDependency: the extra "serve" is not installed.
        InvalidInput: the address cannot be listened on.
        InvalidRequest: the decision model's address is none.
        EngineError: the model cannot be loaded.
    """
    try:
        from agentform.serve.app import Service
        from agentform.serve.server import Server
    except ImportError as error:
        raise MissingDependency(f"agentform serve needs its extra: {install_line('serve')}") from error
    # Plain lines: rich takes two milliseconds of the event loop for each.
    logging.basicConfig(level=logging.INFO, format=_line(settings), datefmt="%Y-%m-%d %H:%M:%S", stream=console.file)
    logging.getLogger("httpx").setLevel(logging.WARNING)  # a line for every request to a server that is the engine
    second = None if decider is None else load_decider(decider)
    listener = _listen(settings)
    started = time.perf_counter()
    try:
        loaded = opened(console, model, engine)
    except BaseException:
        listener.close()
        raise
    service = Service(
        engine=loaded,
        settings=settings,
        priors=PriorStore(cache_home() / "priors"),
        decider=second,
        tools=tools,
        own_tools=own_tools,
        instructions=instructions,
    )
    host, port = listener.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    seconds = time.perf_counter() - started
    console.print(
        SafeText(f"{service.model} loaded in {seconds:.1f} s, served at http://{shown}:{port}/v1"), soft_wrap=True
    )
    if settings.page:
        console.print(SafeText(f"the page is http://{shown}:{port}/page{page_key}"), soft_wrap=True)

    async def run() -> None:
        try:
            await Server(service).serve(sockets=[listener])
        finally:
            with anyio.CancelScope(shield=True):
                await loaded.aclose()

    anyio.run(run)


def _line(settings: ServerSettings) -> str:
    """How lines are laid out; those of JSON hold nothing else."""
    return "%(message)s" if settings.access_log == "json" else _LINE


def _listen(settings: ServerSettings) -> socket.socket:
    """The socket, before the model is loaded: an address in use is said at once."""
    host = settings.host.strip("[]")
    try:
        family = socket.getaddrinfo(host, settings.port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, settings.port), family=family, backlog=128)
    except OSError as error:
        raise InvalidInput(f"cannot listen on {settings.host} port {settings.port}: {error}") from error
