"""Following references and folding `allOf`, until a schema says in its own keywords what it asks."""

from __future__ import annotations

from dataclasses import dataclass

from agentform.errors import UnsupportedSchema
from agentform.schema.form import Path
from agentform.schema.keywords import Schema
from agentform.schema.normalize import merge
from agentform.schema.refs import Document

__all__ = ["Settled", "settle"]


@dataclass(frozen=True, kw_only=True)
class Settled:
    """A schema without `$ref`; an `allOf` in it holds only what could not be merged."""

    schema: Schema
    refs: frozenset[str]
    """The references given, and those followed here."""
    repeat: str = ""
    """Name of the definition that was being unfolded already; `schema` is then the schema as it stood."""
    where: Path | None = None
    """Path of the definition in the document, where the schema was a reference."""

    @property
    def title(self) -> str:
        if self.repeat:
            return self.repeat
        title = self.schema.get("title", "") if isinstance(self.schema, dict) else ""
        return title if isinstance(title, str) else ""


def settle(schema: Schema, document: Document, refs: frozenset[str], chain: frozenset[str] = frozenset()) -> Settled:
    """The schema with references followed and `allOf` folded in; annotations nearest to the place win.

    `refs` are those that places further up have followed, `chain` those followed for this very place. Raises
    `UnsupportedSchema` for references that lead round in a circle without anything between.
    """
    if isinstance(schema, bool):
        return Settled(schema=schema, refs=refs)
    parts: list[Schema] = [document.target(schema["$ref"])] if "$ref" in schema else []
    where = None
    members = chain
    if "$ref" in schema:
        ref: str = schema["$ref"]
        if ref in chain:
            raise UnsupportedSchema("references lead round in a circle", pointer=ref[1:])
        if ref in refs:
            return Settled(schema=schema, refs=refs, repeat=document.name_of(ref))
        where, chain = document.path_of(ref), chain | {ref}
    made: Schema = {key: item for key, item in schema.items() if key not in ("$ref", "allOf")}
    entered = refs | chain
    for part, via in [(p, chain) for p in parts] + [(p, members) for p in schema.get("allOf", [])]:
        settled = settle(part, document, refs, via)
        if settled.repeat:
            return Settled(schema=schema, refs=refs, repeat=settled.repeat)
        made = merge(settled.schema, made)
        entered, where = entered | settled.refs, settled.where if via is chain and settled.where else where
    return Settled(schema=made, refs=entered, where=where)
