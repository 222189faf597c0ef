"""Parameters that LangChain or LangGraph fills in: no model may see them, and nobody fills them in here.

They are told by name, so that nothing of LangChain is imported.
"""

from __future__ import annotations

from typing import Annotated, Any, Union, get_args, get_origin

__all__ = ["is_injected"]

_MARKS = {"InjectedToolArg", "_DirectlyInjectedToolArg", "RunnableConfig", "BaseCallbackManager", "BaseRunManager"}
_PACKAGES = ("langchain", "langgraph")


def is_injected(annotation: Any) -> bool:
    """Whether a parameter of this annotation is one of those, also where it may be absent."""
    if get_origin(annotation) is Annotated:
        inner, *metadata = get_args(annotation)
        return any(map(_is_mark, metadata)) or is_injected(inner)
    if get_origin(annotation) is not None:
        arguments = get_args(annotation) if _is_union(annotation) else ()
        return any(map(is_injected, arguments)) or _is_mark(get_origin(annotation))
    return _is_mark(annotation)


def _is_union(annotation: Any) -> bool:
    return get_origin(annotation) is Union or type(annotation).__name__ == "UnionType"


def _is_mark(item: Any) -> bool:
    kind = item if isinstance(item, type) else type(item)
    return any(base.__name__ in _MARKS and base.__module__.startswith(_PACKAGES) for base in kind.__mro__)
