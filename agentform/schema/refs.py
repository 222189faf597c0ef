"""References inside one schema document, and schemas cut out of it so that they stand alone."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urljoin

from agentform.errors import UnsupportedSchema
from agentform.json_schema.keywords import Schema, SchemaDict, is_annotation
from agentform.json_schema.pointer import steps_of
from agentform.json_schema.walk import map_subschemas, subschemas
from agentform.schema.draft import JsonSchemaDraft, newer_than
from agentform.schema.form import Path, pointer
from agentform.schema.work import Work

__all__ = ["Document"]

_ADDRESS = frozenset({"$id", "id", "$anchor", "$schema", "$defs", "definitions", "$vocabulary"})
"""Keywords without meaning in a schema whose references are pointers from the document's root."""


class Document:
    """A schema document in which every reference has been resolved.

    Schemas handed out are in the words of draft 2020-12 whatever the document's draft is, and hold references of one
    shape only: `#` and a JSON Pointer from the document's root.

    Raises:
        UnsupportedSchema: for a reference that leaves the document or points at nothing.
    """

    def __init__(self, schema: Schema, draft: JsonSchemaDraft, work: Work | None = None) -> None:
        self.work = work or Work()
        """What all that is made of the document may cost together."""
        self.kept: dict[tuple[object, ...], tuple[Schema, Any]] = {}
        """What was found out about a schema before, with the schema, whose identity is part of the key."""
        self._names: dict[str, str] = {}
        self._bare_schemas: dict[int, tuple[Schema, _Bare]] = {}
        self._source = schema
        self._draft = draft
        self._ignored = newer_than(draft)
        self._addresses: dict[str, Path] = {"": ()}
        self._index(schema, (), "")
        self._normal: dict[Path, Schema] = {}
        self.root: Schema = self._at(())

    def target(self, ref: str) -> Schema:
        """The schema at a reference of the shape that this document hands out."""
        return self._at(self.path_of(ref))

    def path_of(self, ref: str) -> Path:
        """Path of a reference's target from the document's root."""
        return steps_of(ref[1:])

    def name_of(self, ref: str) -> str:
        """A name for a reference's target: its own key, or `root`."""
        return ref.rpartition("/")[2] or "root"

    def closed(self, schema: Schema) -> Schema:
        """The schema without annotations, with all that it refers to under its own `$defs`."""
        body = self._bare(schema)
        defs: SchemaDict = {}
        waiting = list(body.refs)
        while waiting:  # a definition may name further ones
            name = self._name(ref := waiting.pop(0))
            if name not in defs:
                definition = self._bare(self.target(ref))
                defs[name] = definition.schema
                waiting += definition.refs
        if not defs:
            return True if body.schema == {} else body.schema
        assert isinstance(body.schema, dict), "only an object refers to something"
        return {**body.schema, "$defs": defs}

    def _bare(self, schema: Schema) -> _Bare:
        """The schema without annotations; each part of the document is made bare once."""
        known = self._bare_schemas.get(id(schema))
        if known is not None and known[0] is schema:
            return known[1]
        made = self._made_bare(schema)
        self._bare_schemas[id(schema)] = schema, made
        return made

    def _made_bare(self, schema: Schema) -> _Bare:
        self.work.spend()
        if isinstance(schema, bool):
            return _Bare(schema, ())
        kept = {k: v for k, v in schema.items() if not is_annotation(k) and k not in _ADDRESS}
        refs: dict[str, None] = {}

        def change(_: Path, item: Schema) -> Schema:
            below = self._bare(item)
            refs.update(dict.fromkeys(below.refs))
            return below.schema

        made = map_subschemas(kept, change)
        if "$ref" in made:
            refs[made["$ref"]] = None
            made["$ref"] = "#/$defs/" + self._name(made["$ref"])
        return _Bare(made, tuple(refs))

    def _name(self, ref: str) -> str:
        """The name of a definition, the same in all schemas cut out of the document."""
        if ref not in self._names:
            steps = steps_of(ref[1:])
            wanted = steps[1] if len(steps) == 2 and steps[0] in ("$defs", "definitions") else "_".join(steps)
            plain = re.sub(r"[^A-Za-z0-9_.-]", "_", wanted) or "root"  # no character that a URI would escape
            self._names[ref] = _unused(plain, set(self._names.values()))
        return self._names[ref]

    def _index(self, schema: Any, path: Path, base: str) -> None:
        if not isinstance(schema, dict):
            return
        known: SchemaDict = schema
        own = known.get("id" if self._draft == "4" else "$id")
        if isinstance(own, str) and not own.startswith("#"):
            base = _join(base, own).rstrip("#")
            self._addresses.setdefault(base, path)
        elif isinstance(own, str):
            self._addresses.setdefault(base + own, path)
        if isinstance(anchor := known.get("$anchor"), str):
            self._addresses.setdefault(f"{base}#{anchor}", path)
        for step, item in subschemas(known):
            self._index(item, path + step, base)

    def _at(self, path: Path) -> Schema:
        if path not in self._normal:
            found, base = self._walk(path)
            self._normal[path] = self._rewrite(found, path, base)
        return self._normal[path]

    def _walk(self, path: Path) -> tuple[Any, str]:
        """What stands at the path, and the base address that holds around it."""
        here: Any = self._source
        base = ""
        for key in path:
            base = self._base(here, base)
            here = here[int(key)] if isinstance(here, list) else here[key]
        return here, base

    def _base(self, schema: Any, base: str) -> str:
        own = schema.get("id" if self._draft == "4" else "$id") if isinstance(schema, dict) else None
        return _join(base, own).rstrip("#") if isinstance(own, str) and not own.startswith("#") else base

    def _rewrite(self, schema: Any, path: Path, base: str) -> Schema:
        if not isinstance(schema, dict):
            return schema
        known: SchemaDict = schema
        self.work.spend()
        base = self._base(known, base)
        made = map_subschemas(known, lambda step, item: self._rewrite(item, path + step, base))
        if "$ref" in known:
            ref = known["$ref"]
            if not isinstance(ref, str):
                raise UnsupportedSchema("a reference is a text", pointer=pointer((*path, "$ref")))
            made["$ref"] = "#" + pointer(self._resolve(ref, path, base))
            if self._draft in ("4", "6", "7"):  # there, whatever stands beside a reference is ignored
                made = {key: item for key, item in made.items() if key == "$ref" or is_annotation(key)}
        made = {key: item for key, item in made.items() if key not in self._ignored}
        return made if self._draft == "2020-12" else _modern(made)

    def _resolve(self, ref: str, path: Path, base: str) -> Path:
        address, _, fragment = _join(base, ref).partition("#")
        fragment = unquote(fragment)
        if fragment and not fragment.startswith("/"):
            found = self._addresses.get(f"{address}#{fragment}")
            tail: Path = ()
        else:
            found, tail = self._addresses.get(address), steps_of(fragment)
        where = pointer((*path, "$ref"))
        if found is None:
            raise UnsupportedSchema(f"{ref!r} is not in this document, and nothing is fetched", pointer=where)
        try:
            target, _ = self._walk(found + tail)
        except (KeyError, IndexError, ValueError, TypeError):
            raise UnsupportedSchema(f"{ref!r} points at nothing", pointer=where) from None
        if not isinstance(target, (dict, bool)):
            raise UnsupportedSchema(f"{ref!r} points at something that is not a schema", pointer=where)
        return found + tail


@dataclass(frozen=True)
class _Bare:
    schema: Schema
    refs: tuple[str, ...]
    """What it refers to, in the document's own pointers."""


def _unused(wanted: str, taken: set[str]) -> str:
    name, count = wanted, 1
    while name in taken:
        count += 1
        name = f"{wanted}_{count}"
    return name


def _join(base: str, ref: str) -> str:
    # urljoin gives up on schemes that it does not know, such as urn:
    return base.partition("#")[0] + ref if ref.startswith("#") else urljoin(base, ref)


def _modern(schema: SchemaDict) -> SchemaDict:
    made = dict(schema)
    if isinstance(made.get("items"), list):
        made["prefixItems"] = made.pop("items")
        if "additionalItems" in made:
            made["items"] = made.pop("additionalItems")
    made.pop("additionalItems", None)
    for limit, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if isinstance(flag := made.get(exclusive), bool):
            del made[exclusive]
            if flag and limit in made:
                made[exclusive] = made.pop(limit)
    for name, wanted in (made.pop("dependencies", None) or {}).items():
        keyword = "dependentRequired" if isinstance(wanted, list) else "dependentSchemas"
        made[keyword] = {**made.get(keyword, {}), name: wanted}
    return made
