"""Docstrings: what they say of a function and of its parameters.

::

    Google, `Args:`        NumPy, `Parameters` over a line       Sphinx and Epytext, `:param x:`
            \\                       |                             /
             parameters by name      +      the rest, as it was written

Only what describes a parameter is taken out; errors, notes and examples stay in the text that the model reads.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from agentform.tools.signature import underlying

__all__ = ["documentation"]

_TITLES = r"(?:other |keyword )?(?:args|arguments|parameters|params)"
_GOOGLE = re.compile(rf"\s*{_TITLES}\s*:\s*", re.IGNORECASE)
_NUMPY = re.compile(rf"{_TITLES}\s*", re.IGNORECASE)
_RULE = re.compile(r"[-=~]{3,}\s*")
_HEADING = re.compile(r"[A-Z][\w ]*:\s*")
_NAMES = r"\*{0,2}[A-Za-z_]\w*(?:\s*,\s*\*{0,2}[A-Za-z_]\w*)*"
_GOOGLE_ENTRY = re.compile(rf"(?:[-*•]\s+)?`*({_NAMES})`*\s*(?:[(\[].*?[)\]])?\s*(?::(?!:)|\s-{{1,2}}\s)\s*(.*)")
_NUMPY_ENTRY = re.compile(rf"({_NAMES})\s*(?::.*)?")
_FIELD = re.compile(r"\s*[:@](\w+)((?:\s+[^:\s]+)*)\s*:\s*(.*)")
_PARAMETER_FIELDS = {"param", "parameter", "arg", "argument", "key", "keyword", "kwarg", "kwparam"}
_TYPE_FIELDS = {"type", "rtype", "kwtype"}
_KEPT_FIELDS = {"raises": "Raises", "raise": "Raises", "except": "Raises", "exception": "Raises"} | {
    "returns": "Returns",
    "return": "Returns",
    "yields": "Yields",
    "yield": "Yields",
}


def documentation(fn: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    """What a docstring says of the function, and of its parameters by name."""
    text = _docstring(fn)
    parameters: dict[str, str] = {}
    kept = list(_read(text.splitlines(), parameters)) if "\n" in text or _FIELD.fullmatch(text) else [text]
    said = re.sub(r"\n{3,}", "\n\n", "\n".join(kept)).strip()
    return said, parameters


def _docstring(fn: Callable[..., Any]) -> str:
    while isinstance(fn, partial):
        fn = fn.func
    own = inspect.getdoc(underlying(fn))
    return (own if inspect.isroutine(fn) else own or inspect.getdoc(type(fn))) or ""


def _read(lines: Sequence[str], parameters: dict[str, str]) -> Iterator[str]:
    """The lines that describe no parameter; the others go into `parameters`."""
    at = 0
    while at < len(lines):
        end, found = _section(lines, at)
        if end == at:
            yield lines[at].rstrip()
            at += 1
            continue
        parameters |= found
        yield from _kept_field(lines, at, end)
        at = end


def _section(lines: Sequence[str], at: int) -> tuple[int, dict[str, str]]:
    """The end of what describes parameters from line `at` on, `at` where nothing does, and what it says."""
    if _GOOGLE.fullmatch(lines[at]):
        return _google(lines, at)
    if _NUMPY.fullmatch(lines[at]) and at + 1 < len(lines) and _RULE.fullmatch(lines[at + 1]):
        return _numpy(lines, at)
    return _field(lines, at)


def _google(lines: Sequence[str], at: int) -> tuple[int, dict[str, str]]:
    # A docstring that begins with the heading has lost the indentation of what stands below it.
    first = at == 0
    end = at + 1
    while end < len(lines) and (_deeper(lines[end], lines[at]) or (first and not _is_heading(lines[end]))):
        end += 1
    block = [line for line in lines[at + 1 : end] if line.strip()]
    edge = min((_indent(line) for line in block), default=0)
    found: dict[str, str] = {}
    names: list[str] = []
    for line in block:
        entry = _GOOGLE_ENTRY.fullmatch(line.strip()) if _indent(line) == edge else None
        names = _names(entry[1]) if entry else names
        _add(found, names, entry[2] if entry else line)
    return (end, found) if found else (at, {})


def _numpy(lines: Sequence[str], at: int) -> tuple[int, dict[str, str]]:
    found: dict[str, str] = {}
    names: list[str] = []
    end = at + 2
    while end < len(lines):
        line, entry = lines[end], _NUMPY_ENTRY.fullmatch(lines[end].strip())
        if line.strip() and _indent(line) == 0:
            if entry is None or (end + 1 < len(lines) and _RULE.fullmatch(lines[end + 1])):
                break
            names = _names(entry[1])
            found |= dict.fromkeys(names, "")
        else:
            _add(found, names, line)
        end += 1
    return (end, found) if found else (at, {})


def _field(lines: Sequence[str], at: int) -> tuple[int, dict[str, str]]:
    """A field of Sphinx or Epytext, with the lines that go on with it."""
    opened = _FIELD.fullmatch(lines[at])
    if opened is None or opened[1] not in _PARAMETER_FIELDS | _TYPE_FIELDS | _KEPT_FIELDS.keys():
        return at, {}
    end = at + 1
    while end < len(lines) and lines[end].strip() and not _FIELD.fullmatch(lines[end]):
        end += 1
    if opened[1] not in _PARAMETER_FIELDS or not opened[2].split():
        return end, {}
    text = " ".join(" ".join([opened[3], *lines[at + 1 : end]]).split())
    return end, {opened[2].split()[-1].lstrip("*"): text}


def _kept_field(lines: Sequence[str], at: int, end: int) -> Iterator[str]:
    """What a field says that is of no parameter: which errors there are, and what is returned."""
    opened = _FIELD.fullmatch(lines[at])
    if opened is not None and opened[1] in _KEPT_FIELDS:
        yield f"{_KEPT_FIELDS[opened[1]]}{opened[2]}: {opened[3]}".rstrip()
        yield from lines[at + 1 : end]


def _add(found: dict[str, str], names: Sequence[str], text: str) -> None:
    for name in names:
        found[name] = " ".join(f"{found.get(name, '')} {text}".split())


def _names(text: str) -> list[str]:
    return [name.strip().lstrip("*") for name in text.split(",")]


def _deeper(line: str, heading: str) -> bool:
    return not line.strip() or _indent(line) > _indent(heading)


def _is_heading(line: str) -> bool:
    return bool(_HEADING.fullmatch(line.strip()))


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
