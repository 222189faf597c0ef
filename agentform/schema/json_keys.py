"""Keys of Python mappings as keys of JSON objects, none lost: `{1: "a", "1": "b"}` has two."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from typing import Any, cast

from agentform._util.text import text_of, unicode_text

__all__ = ["MAX_DEPTH", "items_by_text", "keys_collide"]

MAX_DEPTH = 500
"""Containers in containers that are written as JSON."""
_CONTAINERS = frozenset({dict, list, tuple})


def keys_collide(value: Any) -> bool:
    """Whether two keys of one mapping in the value would be one as text."""
    left, seen = [value], {id(value)}
    while left:
        each = left.pop()
        if isinstance(each, dict) and _has_collision(cast("dict[Any, Any]", each)):
            return True
        for item in _inner(each):
            if type(item) in _CONTAINERS and id(item) not in seen:
                seen.add(id(item))
                left.append(item)
    return False


def _has_collision(mapping: Mapping[Any, Any]) -> bool:
    return not all(isinstance(key, str) for key in mapping) and len(set(map(_key_text, mapping))) < len(mapping)


def _inner(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return cast("dict[Any, Any]", value).values()
    return cast("list[Any]", value) if isinstance(value, (list, tuple)) else ()


def items_by_text(mapping: Mapping[Any, Any]) -> Iterator[tuple[str, Any]]:
    """The items with their keys as text; of keys that would read alike the later ones are their `repr`."""
    seen: set[str] = set()
    for key, item in mapping.items():
        name = _key_text(key)
        name = name if name not in seen else unicode_text(repr(key))
        while name in seen:
            name += "'"
        seen.add(name)
        yield name, item


def _key_text(key: Any) -> str:
    """A key as pydantic writes it, where that is known."""
    if isinstance(key, bool):
        return "true" if key else "false"
    return text_of(key.value if isinstance(key, Enum) else key)
