"""Schemas of an OpenAPI document as JSON Schema that stands alone."""

from __future__ import annotations

from typing import Any

from agentform.errors import UnsupportedSchema
from agentform.json_schema.keywords import Schema, SchemaDict
from agentform.json_schema.pointer import steps_of
from agentform.json_schema.walk import map_subschemas

__all__ = ["Rewriter"]

_COMPONENTS = "#/components/schemas/"
_EXCLUSIVE = {"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"}


class Rewriter:
    """Follows references and puts OpenAPI's own words into JSON Schema's.

    `nullable` and boolean exclusive bounds are read in 3.0 documents. Properties that are `readOnly` belong to
    answers and are left out. References into the components become references into `$defs`.
    """

    def __init__(self, document: Any, version: str) -> None:
        self._document = document
        self._old = version.startswith("3.0")

    def resolved(self, item: Any) -> Any:
        """The item itself, or what its `$ref` leads to.

        Raises:
            UnsupportedSchema: that is nothing.
        """
        for _ in range(32):
            if not isinstance(item, dict) or "$ref" not in item:
                return item
            item = self._target(item["$ref"])
        raise UnsupportedSchema("references lead round in a circle")

    def schema(self, said: Any) -> Schema:
        """The schema in JSON Schema's words."""
        if not isinstance(said, dict):
            return said
        made = map_subschemas(said, lambda _, item: self.schema(item))
        if isinstance(ref := made.get("$ref"), str) and ref.startswith(_COMPONENTS):
            made["$ref"] = "#/$defs/" + ref.removeprefix(_COMPONENTS)
        if isinstance(made.get("properties"), dict):
            self._drop_answers(made)
        return _modern(made) if self._old else made

    def closed(self, schema: SchemaDict) -> SchemaDict:
        """The schema with the components that it refers to, and those that they refer to, under `$defs`."""
        defs: SchemaDict = {}
        waiting = _references(schema)
        while waiting:
            name = waiting.pop()
            if name not in defs:
                defs[name] = self.schema(self._target(_COMPONENTS + name))
                waiting |= _references(defs[name])
        unescaped = {steps_of(f"/{name}")[0]: item for name, item in sorted(defs.items())}
        return {**schema, "$defs": unescaped} if defs else schema

    def _target(self, ref: Any) -> Any:
        here: Any = self._document
        if not isinstance(ref, str) or not ref.startswith("#/"):
            raise UnsupportedSchema(f"{ref!r} is not in this document, and nothing is fetched")
        for key in steps_of(ref[1:]):
            here = here.get(key) if isinstance(here, dict) else None
        if here is None:
            raise UnsupportedSchema(f"{ref!r} points at nothing")
        return here

    def _drop_answers(self, made: SchemaDict) -> None:
        answers = {
            name for name, item in made["properties"].items() if isinstance(item, dict) and item.get("readOnly") is True
        }
        if answers:
            made["properties"] = {name: item for name, item in made["properties"].items() if name not in answers}
            made["required"] = [name for name in made.get("required", ()) if name not in answers]


def _modern(schema: SchemaDict) -> SchemaDict:
    """A schema of 3.0, which is an older JSON Schema with words of its own."""
    made = dict(schema)
    for exclusive, bound in _EXCLUSIVE.items():
        if isinstance(flag := made.get(exclusive), bool):
            del made[exclusive]
            if flag and bound in made:
                made[exclusive] = made.pop(bound)
    if made.pop("nullable", False) is not True:
        return made
    if isinstance(made.get("enum"), list) and None not in made["enum"]:
        made["enum"] = [*made["enum"], None]
    if isinstance(made.get("type"), str):
        made["type"] = [made["type"], "null"]
        return made
    return {"anyOf": [made, {"type": "null"}]} if made else made


def _references(item: Any) -> set[str]:
    if isinstance(item, list):
        return set().union(*map(_references, item)) if item else set()
    if not isinstance(item, dict):
        return set()
    found: set[str] = set().union(*map(_references, item.values())) if item else set()
    ref = item.get("$ref")
    if isinstance(ref, str) and ref.startswith("#/$defs/"):
        found.add(ref.removeprefix("#/$defs/").partition("/")[0])
    return found
