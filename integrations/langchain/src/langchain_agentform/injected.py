"""Parameters that LangChain or LangGraph fills in when it runs a tool: no model sees them."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from langchain_core.callbacks import BaseCallbackManager
from langchain_core.callbacks.manager import BaseRunManager
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import InjectedToolArg
from langchain_core.utils.pydantic import is_basemodel_subclass
from pydantic import TypeAdapter
from typing_extensions import is_typeddict

__all__ = ["visible_function", "visible_schema"]

_BY_NAME = {"callbacks", "run_manager"}
"""What LangChain fills in whatever its annotation is."""
_BY_CLASS = (InjectedToolArg, BaseCallbackManager, BaseRunManager)
_RUNTIME = "_DirectlyInjectedToolArg"
"""The base class of LangGraph's `ToolRuntime`, which is no public name."""


def visible_function(fn: Callable[..., Any]) -> Callable[..., Any]:
    """The function with only the parameters that a model writes."""
    try:
        signature = inspect.signature(fn)
    except (TypeError, ValueError):
        return fn  # what is wrong with it is told where it becomes a tool
    hints = _hints(fn)
    annotations = {name: hints.get(name, parameter.annotation) for name, parameter in signature.parameters.items()}
    hidden = {name for name, annotation in annotations.items() if name in _BY_NAME or _is_injected(annotation)}
    if not hidden:
        return fn

    @functools.wraps(fn)
    def shown(*args: Any, **kwargs: Any) -> Any:
        return fn(*args, **kwargs)

    kept = [parameter for name, parameter in signature.parameters.items() if name not in hidden]
    shown.__signature__ = signature.replace(parameters=kept)  # pyright: ignore[reportAttributeAccessIssue]
    return shown


def visible_schema(kind: Any) -> Mapping[str, Any] | None:
    """The JSON Schema of a class without the fields that are filled in; `None` where it has none of those."""
    if not (is_typeddict(kind) or (isinstance(kind, type) and is_basemodel_subclass(kind))):
        return None
    hidden = {name for name, hint in _hints(kind).items() if _is_injected(hint)}
    if not hidden:
        return None
    schema = TypeAdapter(kind).json_schema()
    properties = {name: said for name, said in schema.get("properties", {}).items() if name not in hidden}
    required = [name for name in schema.get("required", ()) if name not in hidden]
    return {**schema, "properties": properties, "required": required}


def _hints(item: Any) -> dict[str, Any]:
    try:
        return get_type_hints(item, include_extras=True)
    except Exception:  # a name that is not there, an object without annotations
        return {}


def _is_injected(annotation: Any) -> bool:
    if get_origin(annotation) is Annotated:
        inner, *metadata = get_args(annotation)
        return any(map(_is_mark, metadata)) or _is_injected(inner)
    if get_origin(annotation) in (Union, UnionType):
        return any(map(_is_injected, get_args(annotation)))
    return _is_mark(get_origin(annotation) or annotation)


def _is_mark(item: Any) -> bool:
    kind: type[Any] = item if isinstance(item, type) else type(item)
    return kind is RunnableConfig or issubclass(kind, _BY_CLASS) or any(b.__name__ == _RUNTIME for b in kind.__mro__)
