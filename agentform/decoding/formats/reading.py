"""Reads one value at a place in a text, in each of the spellings that models use for values."""

from __future__ import annotations

import ast
import json
import re
from typing import Any

from agentform.errors import InvalidInput
from agentform.messages import JsonValue
from agentform.schema.json_text import loads, problems

__all__ = ["Unreadable", "read_bare", "read_json", "read_python"]

_DECODER = json.JSONDecoder()
_PYTHON_STRING = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"", re.DOTALL)
_PYTHON_WORD = re.compile(r"[^\s,()\[\]{}:'\"=]+")
_BARE_WORD = re.compile(r"[^,:{}\[\]<]+")
_MAX_DEPTH = 200


class Unreadable(ValueError):
    """The text is not a value in this spelling."""


def read_json(text: str, at: int) -> tuple[JsonValue, int]:
    """A JSON value and where it ends, strict as `loads` is.

    Raises:
        Unreadable: there is no such value.
    """
    try:
        _, end = _DECODER.raw_decode(text, at)
        return loads(text[at:end]), end
    except (ValueError, RecursionError, InvalidInput) as error:
        raise Unreadable(str(error)) from error


def read_python(text: str, at: int) -> tuple[JsonValue, int]:
    """A Python literal and where it ends.

    Raises:
        Unreadable: there is no such value.
    """
    end = _python_end(text, at, 0)
    try:
        value: Any = ast.literal_eval(text[at:end].strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError) as error:
        raise Unreadable(f"no Python literal: {text[at : at + 20]!r}") from error
    if next(problems(value), None) is not None:
        raise Unreadable(f"no JSON value: {text[at : at + 20]!r}")
    return value, end


def _python_end(text: str, at: int, depth: int) -> int:
    """Where a literal ends, without evaluating it."""
    if depth > _MAX_DEPTH or at >= len(text):
        raise Unreadable("a literal without an end")
    opening = text[at]
    if opening in "'\"":
        return _end(_PYTHON_STRING, text, at)
    if opening not in "([{":
        return _end(_PYTHON_WORD, text, at)
    closing = {"(": ")", "[": "]", "{": "}"}[opening]
    at += 1
    while at < len(text) and text[at] != closing:
        at = at + 1 if text[at] in ", :\n" else _python_end(text, at, depth + 1)
    if at >= len(text):
        raise Unreadable(f"no {closing!r} after {opening!r}")
    return at + 1


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    if found is None:
        raise Unreadable(f"no literal at {text[at : at + 20]!r}")
    return found.end()


def read_bare(text: str, at: int, *, quote: str, null: str, depth: int = 0) -> tuple[JsonValue, int]:
    """A value whose strings stand between `quote` and whose keys may be bare, and where it ends.

    Raises:
        Unreadable: there is no such value.
    """
    if depth > _MAX_DEPTH:
        raise Unreadable("nested too deeply")
    if text.startswith(quote, at):
        return _quoted(text, at, quote)
    if text.startswith("{", at):
        return _bare_object(text, at + 1, quote, null, depth)
    if text.startswith("[", at):
        return _bare_list(text, at + 1, quote, null, depth)
    found = _BARE_WORD.match(text, at)
    if found is None:
        raise Unreadable(f"no value at {text[at : at + 20]!r}")
    word = found[0].strip()
    words: dict[str, JsonValue] = {"true": True, "false": False, "null": None, null: None}
    return (words[word] if word in words else read_json(word, 0)[0]), found.end()


def _quoted(text: str, at: int, quote: str) -> tuple[str, int]:
    start = at + len(quote)
    end = text.find(quote, start)
    if end < 0:
        raise Unreadable("a string without an end")
    return text[start:end], end + len(quote)


def _bare_object(text: str, at: int, quote: str, null: str, depth: int) -> tuple[JsonValue, int]:
    value: dict[str, JsonValue] = {}
    while not text.startswith("}", at):
        if text.startswith(quote, at):
            key, at = _quoted(text, at, quote)
        else:
            end = text.find(":", at)
            key, at = text[at:end].strip(), end
        if not text.startswith(":", at) or at < 0:
            raise Unreadable(f"no ':' after a key at {text[at : at + 20]!r}")
        value[key], at = read_bare(text, at + 1, quote=quote, null=null, depth=depth + 1)
        at = _next(text, at, "}")
    return value, at + 1


def _bare_list(text: str, at: int, quote: str, null: str, depth: int) -> tuple[JsonValue, int]:
    value: list[JsonValue] = []
    while not text.startswith("]", at):
        item, at = read_bare(text, at, quote=quote, null=null, depth=depth + 1)
        value.append(item)
        at = _next(text, at, "]")
    return value, at + 1


def _next(text: str, at: int, closing: str) -> int:
    if text.startswith(",", at):
        return at + 1
    if not text.startswith(closing, at):
        raise Unreadable(f"no ',' or {closing!r} at {text[at : at + 20]!r}")
    return at
