"""Where a schema is open or deep although a few words would let the grammar, or a choice, carry the constraint."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from agentform.json_schema.keywords import SchemaDict
from agentform.schema.form import Form, Free, Node, Path, Record, Repeat, Union, pointer

__all__ = ["Hint", "lint"]

_ANY = "*"
_LISTED = re.compile(r"\b(?:one of|either|must be|can be|options(?: are)?|values(?: are)?)\b[^.]*(?:,|\bor\b)", re.I)
_MAX_DEPTH = 12


@dataclass(frozen=True, kw_only=True)
class Hint:
    """One thing that could be said more narrowly."""

    pointer: str
    """The place in the value, as a JSON Pointer; `*` stands for any item or key of an array or map."""
    problem: str
    change: str
    """What to write instead, in JSON Schema's and pydantic's words."""


def lint(form: Form) -> tuple[Hint, ...]:
    """Hints in the order of the form; an empty tuple for one in which nothing is needlessly open."""
    said = (Hint(pointer=item.pointer, problem=item.problem, change=item.change) for item in form.remarks)
    return tuple(dict.fromkeys([*said, *_hints(form.root)]))


def _hints(node: Node) -> Iterator[Hint]:
    match node:
        case Record():
            for field in node.fields:
                yield from _hints(field.node)
        case Union():
            yield from _union(node)
            for arm in node.arms:
                yield from _hints(arm)
        case Repeat():
            for item in node.items[:1]:
                yield from _hints(item)
        case Free():
            yield from _free(node)
        case _:
            return


def _union(node: Union) -> Iterator[Hint]:
    if node.discriminator is None and sum(isinstance(arm, Record) for arm in node.arms) > 1:
        yield _hint(
            node.path,
            "its arms are objects that nothing tells apart",
            'give each a property with a constant, as `kind: Literal["..."]` with `Field(discriminator="kind")`',
        )


def _free(node: Free) -> Iterator[Hint]:
    if node.why.startswith("recursive"):
        yield _hint(node.path, f"{node.why}: it is written freely from here on", "declare as many levels as are needed")
    elif node.why == "nested deeply":
        yield _hint(node.path, "it is nested so deeply that it is written freely", "flatten the levels above it")
    schema: Any = node.schema
    definitions: SchemaDict = schema.get("$defs", {}) if isinstance(schema, dict) else {}
    yield from _Walk(definitions).hints(schema, node.path, node.description)


class _Walk:
    """Through the schema of one free leaf, each definition once."""

    def __init__(self, definitions: SchemaDict) -> None:
        self._definitions = definitions
        self._seen: set[tuple[str, Path]] = set()

    def hints(self, schema: Any, path: Path, description: str) -> Iterator[Hint]:
        if schema is True or schema == {}:
            yield _hint(path, "anything is allowed", "declare a type")
        if not isinstance(schema, dict) or len(path) > _MAX_DEPTH:
            return
        ref = schema.get("$ref")
        if isinstance(ref, str):
            name = ref.rpartition("/")[2]
            if not any(known == name and path[: len(above)] == above for known, above in self._seen):
                self._seen.add((name, path))
                yield from self.hints(self._definitions.get(name, {}), path, description)
            return
        for arm in (*schema.get("anyOf", ()), *schema.get("oneOf", ()), *schema.get("allOf", ())):
            yield from self.hints(arm, path, description)
        if "enum" not in schema and "const" not in schema:
            yield from self._typed(schema, path, description)

    def _typed(self, schema: SchemaDict, path: Path, description: str) -> Iterator[Hint]:
        match schema.get("type"):
            case "string":
                yield from _string(schema, path, description)
            case "integer" | "number" as kind:
                yield from _number(schema, path, kind)
            case "array":
                yield from _array(schema, path)
                yield from self.hints(schema.get("items", True), (*path, _ANY), "")
            case "object":
                yield from self._object(schema, path)
            case _:
                return

    def _object(self, schema: SchemaDict, path: Path) -> Iterator[Hint]:
        members: SchemaDict = schema.get("properties", {})
        extra = schema.get("additionalProperties", True)
        if members and extra is True:
            yield _hint(path, "further keys are allowed", '`additionalProperties: false`, in pydantic `extra="forbid"`')
        elif not members and "patternProperties" not in schema and "propertyNames" not in schema:
            yield _hint(path, "its keys are open", "declare the keys as properties, or as `dict[Literal[...], ...]`")
        for name, item in members.items():
            yield from self.hints(item, (*path, name), "")
        if isinstance(extra, dict) and extra:
            yield from self.hints(extra, (*path, _ANY), "")


def _string(schema: SchemaDict, path: Path, description: str) -> Iterator[Hint]:
    if _LISTED.search(description):
        yield _hint(
            path, "its description lists values, its schema does not", "an enum: `Literal[...]`, then it is chosen"
        )
    elif not schema.keys() & {"maxLength", "pattern", "format"}:
        yield _hint(path, "text of any length", "an enum where the values are known, else `maxLength`")


def _number(schema: SchemaDict, path: Path, kind: str) -> Iterator[Hint]:
    low = schema.keys() & {"minimum", "exclusiveMinimum"}
    high = schema.keys() & {"maximum", "exclusiveMaximum"}
    if not (low and high):
        missing = "neither end" if not low and not high else "one end only"
        more = "; up to 32 values are chosen, not written" if kind == "integer" else ""
        yield _hint(path, f"bounded at {missing}", f"`minimum` and `maximum`, in pydantic `ge` and `le`{more}")


def _array(schema: SchemaDict, path: Path) -> Iterator[Hint]:
    items = schema.get("items")
    if isinstance(items, dict) and "enum" in items and not schema.get("uniqueItems"):
        yield _hint(
            path, "known values may be repeated", "`uniqueItems`, in pydantic `set[Literal[...]]`, then each is chosen"
        )
    if "maxItems" not in schema:
        yield _hint(path, "a list of any length", "`maxItems`, in pydantic `max_length`")


def _hint(path: Path, problem: str, change: str) -> Hint:
    return Hint(pointer=pointer(path), problem=problem, change=change)
