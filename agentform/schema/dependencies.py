"""Leaves that depend on one another: what a type declares, and what a schema states."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from agentform.errors import UnsupportedSchema
from agentform.json_schema.keywords import SchemaDict

__all__ = ["DEPENDS_ON", "DependsOn", "dependencies", "in_order"]

DEPENDS_ON = "x-depends-on"
"""The extension keyword that carries a declaration through JSON Schema: a list of sibling property names."""

_MOST_STATED = 1_000
"""Pairs of properties of one object that its keywords put in an order, at most: it is a matter of taste."""


@dataclass(frozen=True)
class DependsOn:
    """Declares in `Annotated` that a field is to be decided when others of the same model are known.

    ``refund: Annotated[bool, DependsOn("category")]`` is scored after `category`, with its value in view.

    Examples:
        >>> from typing import Annotated
        >>> from pydantic import TypeAdapter
        >>> TypeAdapter(Annotated[bool, DependsOn("category")]).json_schema()
        {'type': 'boolean', 'x-depends-on': ['category']}
    """

    names: tuple[str, ...]

    def __init__(self, *names: str) -> None:
        if not names:
            raise UnsupportedSchema("DependsOn needs the name of at least one other field")
        object.__setattr__(self, "names", names)

    def __get_pydantic_json_schema__(self, core_schema: Any, handler: Any) -> dict[str, Any]:
        return {**handler(core_schema), DEPENDS_ON: list(self.names)}


def dependencies(schema: SchemaDict, asked: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """The parents of each property in `asked`, which holds what each property is asked to be.

    What is declared must make sense; of what the keywords state, only that which leads to no circle is kept, since
    there it is a matter of taste what comes first.

    Raises:
        UnsupportedSchema: a declaration names no field beside it, or leads round in a circle.
    """
    parents = {name: _declared(item) for name, item in asked.items()}
    in_order(parents)
    for child, parent in islice(_stated(schema), _MOST_STATED):
        known = child in parents and parent in parents and parent not in parents[child]
        if known and not _reaches(parents, parent, child):
            parents[child] = (*parents[child], parent)
    return parents


def _declared(schema: Any) -> tuple[str, ...]:
    names = schema.get(DEPENDS_ON, []) if isinstance(schema, Mapping) else []
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise UnsupportedSchema(f"{DEPENDS_ON} must be a list of property names, got {names!r}")
    return tuple(names)


def _reaches(parents: Mapping[str, Iterable[str]], name: str, wanted: str) -> bool:
    seen: set[str] = set()
    waiting = [name]
    while waiting:
        here = waiting.pop()
        if here == wanted:
            return True
        if here not in seen:
            seen.add(here)
            waiting += parents[here]
    return False


def _stated(schema: SchemaDict) -> Iterator[tuple[str, str]]:
    """Pairs (property, the one it depends on) that an object schema states by its keywords across properties."""
    parents = _mentioned(schema.get("if"))
    children = {name for keyword in ("then", "else") for name in _mentioned(schema.get(keyword))}
    yield from ((child, parent) for child in sorted(children) for parent in parents if child != parent)
    for parent, required in (schema.get("dependentRequired") or {}).items():
        yield from ((child, parent) for child in required if child != parent)
    for parent, part in (schema.get("dependentSchemas") or {}).items():
        yield from ((child, parent) for child in _mentioned(part) if child != parent)
    for part in schema.get("allOf") or ():
        if isinstance(part, dict):
            yield from _stated(part)


def _mentioned(part: Any) -> list[str]:
    if not isinstance(part, dict):
        return []
    found = dict.fromkeys([*(part.get("properties") or {}), *(part.get("required") or ())])
    for keyword in ("allOf", "anyOf", "oneOf"):
        for inner in part.get(keyword) or ():
            found |= dict.fromkeys(_mentioned(inner))
    return list(found) + _mentioned(part.get("not"))


def in_order(parents: Mapping[str, Iterable[str]]) -> list[str]:
    """The names with every parent before its children, otherwise in the order given.

    Raises:
        UnsupportedSchema: a name depends on one that is not there, or, in the end, on itself.
    """
    ordered: dict[str, None] = {}

    def visit(name: str, waiting: tuple[str, ...]) -> None:
        if name in waiting:
            raise UnsupportedSchema(f"fields depend on one another in a circle: {' -> '.join((*waiting, name))}")
        if name not in parents:
            raise UnsupportedSchema(f"{waiting[-1]!r} depends on {name!r}, which is not a field beside it")
        for parent in parents[name]:
            if parent not in ordered:
                visit(parent, (*waiting, name))
        ordered[name] = None

    for name in parents:
        if name not in ordered:
            visit(name, ())
    return list(ordered)
