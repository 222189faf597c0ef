"""Bounds on the texts, lists and numbers that a chat template makes of others: doubled thirty times they fill a memory.

Each check comes before what it bounds is made.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import wraps
from typing import Any, cast

from jinja2.exceptions import SecurityError
from jinja2.filters import make_attrgetter
from jinja2.nodes import EvalContext
from jinja2.utils import generate_lorem_ipsum

__all__ = ["MOST_CHARACTERS", "bounded_filters", "check_binary", "check_method", "joined"]

MOST_CHARACTERS = 1 << 26
"""Of one text, or items of one list."""
_MOST_BITS = 4096
_MOST_WIDTH = 100_000
"""A number that a template gives to a filter or a text's method: a width, an indent, how many."""
_LONGEST_INDENT = 1000
_INDENTING = frozenset({"tojson", "indent", "wordwrap"})
_FILLING = frozenset({"format", "format_map", "expandtabs", "replace", "join"})
_DIRECTIVE = re.compile(r"%[^a-zA-Z%]*(?:\d{6}|\*)")
_FIELD = re.compile(r"\{[^{}]*:[^{}]*(?:\d{6}|\{)")


def check_binary(operator: str, left: Any, right: Any) -> None:
    """Refuse `+`, `*` and `%` where the outcome would be larger than anything that a prompt has use for.

    Raises:
        jinja2.exceptions.SecurityError
    """
    if operator == "%" and isinstance(left, str):
        check_formatted(left, "%", right if isinstance(right, tuple) else (right,))
    if operator == "+" and _is_sized(left) and _is_sized(right):
        _check_size(len(left) + len(right))
    if operator == "*" and (_is_sized(left) or _is_sized(right)):
        _check_size(_amount(left) * _amount(right))
    if any(isinstance(value, int) and value.bit_length() > _MOST_BITS for value in (left, right)):
        raise SecurityError("the template computes with numbers larger than a prompt has use for")


def check_formatted(text: str, mark: str, values: Iterable[Any]) -> None:
    """Refuse to put `values` into a text, each where a `mark` is, if that may become too large.

    Raises:
        jinja2.exceptions.SecurityError
    """
    if (_DIRECTIVE if mark == "%" else _FIELD).search(text):
        raise SecurityError("the template pads a text to a width that no prompt has room for")
    largest = max((len(value) if isinstance(value, str) else 0 for value in _leaves(values)), default=0)
    _check_size(len(text) + text.count(mark) * largest)


def check_method(method: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[Any, ...]:
    """The arguments for a text's or list's method or a function, refused where what it makes would be too large.

    Raises:
        jinja2.exceptions.SecurityError
    """
    method = getattr(method, "__wrapped__", method)  # the sandbox wraps `format`
    owner = getattr(method, "__self__", None)
    if isinstance(owner, list) and method.__name__ == "extend" and args:
        return (_bounded_items(args[0], 0, len(cast("list[Any]", owner))),)
    if isinstance(owner, str) or method is generate_lorem_ipsum:
        return _checked(method.__name__, owner, args, kwargs)
    return args


def bounded_filters(filters: Mapping[str, Callable[..., Any]]) -> dict[str, Callable[..., Any]]:
    """The same filters, each refusing arguments that would make it return more than a prompt has use for."""
    return {name: _bounded(name, each) for name, each in filters.items()}


def joined(separator: str, parts: Iterable[Any]) -> str:
    """The parts as one text.

    Raises:
        jinja2.exceptions.SecurityError: it would be too long.
    """
    return separator.join(_within(parts, len(separator)))


def _bounded(name: str, work: Callable[..., Any]) -> Callable[..., Any]:
    skipped = 1 if hasattr(work, "jinja_pass_arg") else 0  # the environment or context, which Jinja puts first

    @wraps(work)
    def run(*args: Any, **kwargs: Any) -> Any:
        first, rest = args[: skipped + 1], args[skipped + 1 :]
        if name == "format":
            check_formatted(str(first[-1]), "%", (*rest, *kwargs.values()))
            return work(*args, **kwargs)
        if name == "join":
            return _join(*args, **kwargs)
        return work(*first, *_checked(name, first[-1], rest, kwargs), **kwargs)

    return run


def _join(context: EvalContext, items: Any, d: Any = "", attribute: str | int | None = None) -> str:
    """As Jinja's filter of this name."""
    return joined(str(d), items if attribute is None else map(make_attrgetter(context.environment, attribute), items))


def _checked(name: str, owner: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[Any, ...]:
    values = (*args, *kwargs.values())
    wide = any(isinstance(value, int) and abs(value) > _MOST_WIDTH for value in values)
    if wide or (name in _INDENTING and any(_amount(value) > _LONGEST_INDENT for value in values)):
        raise SecurityError(f"the template asks {name} for more than a prompt has room for")
    if name == "translate":
        raise SecurityError("the template may not translate characters into texts")
    # Only these look at the text: as a text, what others are given may be a whole conversation.
    return _checked_text(name, str(owner), args, kwargs) if name in _FILLING else args


def _checked_text(name: str, text: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[Any, ...]:
    """What is put into a text for each of its tabs, fields, letters or whatever is replaced."""
    values = (*args, *kwargs.values())
    if name in ("format", "format_map"):
        check_formatted(text, "{", values)
    if name == "expandtabs":
        _check_size(len(text) + text.count("\t") * max(map(_amount, values), default=8))
    if name == "replace" and len(given := (*args, *(kwargs[key] for key in ("old", "new") if key in kwargs))) > 1:
        _check_size(len(text) + text.count(str(given[0])) * len(str(given[1])))
    if name == "join" and args:
        return (_bounded_items(args[0], len(text)), *args[1:])
    return args


def _bounded_items(items: Any, separator_size: int, size: int = 0) -> list[Any]:
    """The items themselves: what is no text among them is refused by the method that gets them."""
    kept: list[Any] = []
    for item in cast("Iterable[Any]", items):
        size += separator_size + (_amount(item) if _is_sized(item) else 1)
        _check_size(size)
        kept.append(item)
    return kept


def _within(parts: Iterable[Any], separator_size: int) -> Iterator[str]:
    size = 0
    for part in parts:
        text = part if isinstance(part, str) else str(part)
        size += len(text) + separator_size
        _check_size(size)
        yield text


def _leaves(values: Iterable[Any]) -> Iterator[Any]:
    """The values, and those of mappings among them, from which a text takes what it names."""
    for value in values:
        yield from cast("Mapping[Any, Any]", value).values() if isinstance(value, Mapping) else (value,)


def _check_size(size: int) -> None:
    if size > MOST_CHARACTERS:
        raise SecurityError("the template makes a text or list larger than a prompt has room for")


def _is_sized(value: Any) -> bool:
    return isinstance(value, (str, list, tuple))


def _amount(value: Any) -> int:
    if isinstance(value, (str, list, tuple)):
        return len(cast("list[Any]", value))
    return max(0, value) if isinstance(value, int) else 1
