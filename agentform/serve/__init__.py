"""`agentform serve`: an OpenAI-compatible server over any engine; needs the extra "serve"."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agentform.serve.app import Service
    from agentform.serve.server import Server
    from agentform.serve.settings import ServerSettings

__all__ = ["Server", "ServerSettings", "Service"]

_WHERE = {"Server": "server", "ServerSettings": "settings", "Service": "app"}


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_WHERE[name]}"), name)
