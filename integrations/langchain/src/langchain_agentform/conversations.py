"""Which conversation a call belongs to: its next turn finds what the engine has cached of the turns before."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from langchain_core.callbacks.manager import BaseRunManager
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import ensure_config

__all__ = ["conversation_of", "with_thread"]

_THREAD = "thread_id"


def conversation_of(options: Mapping[str, Any], manager: BaseRunManager | None) -> str | None:
    """The conversation that is named by an option, by the call's metadata, or by what it runs inside of.

    LangGraph names its threads by `thread_id`, and so does whoever calls the model alone.
    """
    config = ensure_config()
    named = (
        options.get("conversation"),
        (manager.metadata if manager is not None else {}).get(_THREAD),
        config.get("configurable", {}).get(_THREAD),
        config.get("metadata", {}).get(_THREAD),
    )
    return next((str(name) for name in named if name is not None), None)


def with_thread(config: RunnableConfig | None, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options, with the conversation that a call's own config names; the methods that are called do not see it."""
    config = config or {}
    for place in (config.get("configurable"), config.get("metadata")):
        if place and _THREAD in place:
            return {"conversation": str(place[_THREAD]), **options}
    return dict(options)
