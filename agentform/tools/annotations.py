"""Annotations of parameters: what they name, and which of them no model can write as JSON."""

from __future__ import annotations

import collections.abc
import inspect
import re
import sys
import typing
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pydantic import TypeAdapter, ValidationError

__all__ = ["local_names", "mentions_self", "unwritable", "with_default"]

_SELF = re.compile(r"\b(?:typing\.|typing_extensions\.|t\.)?Self\b")
_LISTS = (
    collections.abc.Iterator,
    collections.abc.Generator,
    collections.abc.AsyncIterator,
    collections.abc.AsyncIterable,
)
_RIGHT = "a str, a number, a bool, a list, a dict, an Enum, a Literal, a dataclass, a TypedDict or a pydantic model"


def mentions_self(annotation: Any) -> bool:
    """Whether `typing.Self` is the annotation or a part of it."""
    if isinstance(annotation, str):
        return _SELF.search(annotation) is not None
    return getattr(annotation, "__name__", "") == "Self" or any(map(mentions_self, typing.get_args(annotation)))


def local_names(fn: Callable[..., Any]) -> Iterator[Mapping[str, Any]]:
    """The names inside the functions that now run and of which one defines `fn`, the innermost first."""
    holders = getattr(fn, "__qualname__", "").split(".<locals>")[:-1]
    if not holders:
        return
    holder = holders[-1].rpartition(".")[2]
    frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while frame is not None:
        if frame.f_code.co_name == holder and frame.f_globals is getattr(fn, "__globals__", None):
            yield dict(frame.f_locals)
        frame = frame.f_back


def with_default(annotation: Any, parameter: inspect.Parameter) -> Any:
    """`a: int = None` is read as `int | None`, as its writer means it."""
    if parameter.default is not None or _takes_none(annotation):
        return annotation
    if typing.get_origin(annotation) is typing.Annotated:
        base, *metadata = typing.get_args(annotation)
        return typing.Annotated[(base | None, *metadata)]
    return annotation | None


def _takes_none(annotation: Any) -> bool:
    try:
        TypeAdapter(annotation).validate_python(None)
    except ValidationError:
        return False
    except Exception:  # what is no type is told of where the schema is made
        return True
    return True


def unwritable(annotations: Mapping[str, Any]) -> str:
    """What is wrong with the first parameter that no model can write, and what would be right; empty for none."""
    for name, annotation in annotations.items():
        for part in _parts(annotation):
            if reason := _reason(part):
                return f"parameter {name!r} is {_shown(part)}, {reason}"
    return ""


def _parts(annotation: Any) -> Iterator[Any]:
    yield annotation
    for part in typing.get_args(annotation):
        if typing.get_origin(annotation) is not typing.Literal:
            yield from _parts(part)


def _reason(part: Any) -> str:
    origin = typing.get_origin(part) or part
    if origin in (typing.Never, typing.NoReturn):
        return "a type without values: leave the parameter out"
    if origin is collections.abc.Callable:
        return f"which no model can write; take {_RIGHT}"
    if inspect.isclass(origin) and origin in _LISTS:
        items = ", ".join(_shown(item) for item in typing.get_args(part)[:1]) or "str"
        return f"and a model writes all items at once: take list[{items}]"
    if inspect.isclass(origin) and getattr(origin, "_is_protocol", False):
        return f"a protocol, of which no value can be made; take {_RIGHT}"
    return ""


def _shown(part: Any) -> str:
    return part.__name__ if inspect.isclass(part) and not typing.get_args(part) else str(part)
