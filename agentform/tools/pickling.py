"""Tools on their way to another process: by the module and name of their function, from which they are made again."""

from __future__ import annotations

import functools
import importlib
import inspect
import pickle
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from agentform.tools.policy import ToolPolicy

if TYPE_CHECKING:
    from agentform.tools.tool import Tool

__all__ = ["reduced"]


def reduced(tool: Tool[..., Any]) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """What pickle is to write of a tool.

    Raises:
        pickle.PicklingError: its function is no one that another process finds by its name.
    """
    made_from = getattr(tool.fn, "made_from", None)
    if made_from is not None:
        return _from_schema, (*made_from, tool.name, tool.description, tool.policy)
    fn: Any = tool.fn
    if not inspect.isfunction(fn) or not _is_found(fn.__module__, fn.__qualname__, fn):
        raise pickle.PicklingError(
            f"tool {tool.name!r} cannot be pickled: {getattr(fn, '__qualname__', fn)!r} is no function that another "
            "process finds by its module and name; define it at the top of a module"
        )
    return _from_function, (fn.__module__, fn.__qualname__, tool.name, tool.description, tool.policy)


def _is_found(module: str, qualname: str, fn: Any) -> bool:
    try:
        return _found(module, qualname) is fn
    except (ImportError, AttributeError):
        return False


def _found(module: str, qualname: str) -> Any:
    """The function of that name, also where the name stands for the tool that was made of it."""
    found: Any = functools.reduce(getattr, qualname.split("."), importlib.import_module(module))
    return getattr(found, "fn", found)


def _from_function(module: str, qualname: str, name: str, description: str, policy: ToolPolicy) -> Tool[..., Any]:
    from agentform.tools.tool import tool

    return replace(tool(name=name, description=description)(_found(module, qualname)), policy=policy)


def _from_schema(
    schema: Any, call: Any, lenient: bool, name: str, description: str, policy: ToolPolicy
) -> Tool[..., Any]:
    from agentform.tools.tool import Tool

    made = Tool.from_schema(schema, name=name, description=description, call=call, lenient=lenient)
    return replace(made, policy=policy)
