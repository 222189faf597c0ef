"""Docstrings: what they say of a function and of its parameters."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

from agentform.tools.signature import underlying

__all__ = ["documentation"]


def documentation(fn: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    """What a docstring says of the function, and of its parameters by name."""
    text = _docstring(fn)
    if "\n" not in text:
        return text, {}
    from docstring_parser import parse

    try:
        parsed = parse(text)
    except Exception:  # a docstring that resembles a style but breaks it is plain text
        return text, {}
    said = "\n\n".join(part.strip() for part in (parsed.short_description, parsed.long_description) if part)
    return said, {item.arg_name: " ".join((item.description or "").split()) for item in parsed.params}


def _docstring(fn: Callable[..., Any]) -> str:
    while isinstance(fn, partial):
        fn = fn.func
    own = inspect.getdoc(underlying(fn))
    return (own if inspect.isroutine(fn) else own or inspect.getdoc(type(fn))) or ""
