"""Legal meaning in an unusual form: what a schema says twice or in another draft's words is read, and remarked on."""

from __future__ import annotations

from typing import Any

from agentform.json_schema.keywords import Schema, SchemaDict
from agentform.json_schema.walk import map_subschemas
from agentform.schema.closed_values import distinct
from agentform.schema.form import Path, Remark, pointer

__all__ = ["tolerated"]

_PREFIX_IS_ITEMS = ("draft-04", "draft-06", "draft-07", "2019-09")
_WITHOUT_REPETITION = ("enum", "required", "type")


def tolerated(schema: Schema) -> tuple[Schema, tuple[Remark, ...]]:
    """The schema in the usual form, and what was unusual, with its place in the schema."""
    named = str(schema.get("$schema", "")) if isinstance(schema, dict) else ""
    reading = _LenientReading(
        lists_are_items=any(draft in named for draft in _PREFIX_IS_ITEMS), names_draft=bool(named)
    )
    made = reading.schema(schema, ())
    return made, tuple(reading.remarks)


class _LenientReading:
    def __init__(self, *, lists_are_items: bool, names_draft: bool) -> None:
        self._lists_are_items = lists_are_items
        self._names_draft = names_draft
        self.remarks: list[Remark] = []

    def schema(self, schema: Schema, path: Path) -> Schema:
        if isinstance(schema, bool):
            return schema
        made: SchemaDict = dict(schema)
        for keyword in _WITHOUT_REPETITION:
            self._once(made, keyword, path)
        self._without_empty(made, path)
        if isinstance(made.get("items"), list) and self._means_prefix(made):
            made["prefixItems"] = made.pop("items")
            if "additionalItems" in made:
                made["items"] = made.pop("additionalItems")
            self._remark((*path, "items"), "`items` lists schemas, as before draft 2020-12", "`prefixItems`")
        return map_subschemas(made, lambda step, item: self.schema(item, path + step))

    def _means_prefix(self, schema: SchemaDict) -> bool:
        return self._names_draft and not self._lists_are_items and "prefixItems" not in schema

    def _once(self, schema: SchemaDict, keyword: str, path: Path) -> None:
        listed: Any = schema.get(keyword)
        if not isinstance(listed, list) or len(once := distinct(listed)) == len(listed):
            return
        schema[keyword] = once
        self._remark((*path, keyword), f"`{keyword}` says the same more than once", "each of them once")

    def _without_empty(self, schema: SchemaDict, path: Path) -> None:
        for keyword in ("items", "prefixItems", "required"):
            if schema.get(keyword) == [] and (keyword != "required" or self._names_draft):
                del schema[keyword]
                if keyword != "required":
                    self._remark((*path, keyword), f"`{keyword}` is an empty list, which says nothing", "leave it out")

    def _remark(self, path: Path, problem: str, change: str) -> None:
        self.remarks.append(Remark(pointer=pointer(path), problem=problem, change=change))
