"""`agentform chat --page`: the same agent on a page, served to this machine alone."""

from __future__ import annotations

import secrets

from rich.console import Console

from agentform.cli.chat.settings import ChatSettings
from agentform.cli.chat.tools import load_tools
from agentform.cli.mcp_tools import connected, show_left_out
from agentform.cli.serve import serve_model
from agentform.errors import InvalidInput
from agentform.runtime.engine import Sampling
from agentform.serve.settings import ServerSettings

__all__ = ["serve_chat"]


def serve_chat(console: Console, settings: ChatSettings, *, port: int = 0) -> None:
    """Serve the page until SIGINT or SIGTERM, with a key that is made for it and stands in its address alone.

    Raises:
        MissingDependency: the extra "serve" is not installed.
        InvalidInput: an option has no effect on a page, or a tool is none.
        EngineError: the model cannot be loaded.
    """
    _check(settings)
    key = secrets.token_urlsafe(24)
    usual, tokens = ServerSettings(), settings.reasoning_tokens
    served = ServerSettings(
        port=port,
        api_keys=(key,),
        page=True,
        max_tokens=settings.max_tokens or usual.max_tokens,
        reasoning_tokens=usual.reasoning_tokens if tokens is None else tokens,
    )
    with connected(settings.mcp, load_tools(settings.tools, None)) as toolbox:
        show_left_out(console, toolbox)
        serve_model(
            console,
            settings.model,
            served,
            engine=settings.engine,
            decider=settings.decider,
            tools=toolbox,
            page_key=f"#key={key}",
            instructions=settings.instructions,
        )


def _check(settings: ChatSettings) -> None:
    """Refuse what is said on the page itself, or has no place there."""
    useless = {
        "--conversation": settings.conversation is not None,
        "--reasoning-effort": settings.reasoning_effort is not None,
        "--hide-reasoning": not settings.shows_reasoning,
        "the options of sampling": settings.sampling != Sampling(),
    }
    if named := [name for name, is_given in useless.items() if is_given]:
        raise InvalidInput(f"with --page, {', '.join(named)} would have no effect: the page has its own")
