"""Lists written freely that break a rule for lists as a whole: a schema under which what was right of them stays.

The items that are kept are said as constants, so that what is written again differs where the rule was broken.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from agentform.json_schema.keywords import SchemaDict
from agentform.json_schema.pointer import Path, steps_of
from agentform.messages import JsonValue
from agentform.schema.jsonschema_keywords import equality
from agentform.schema.tighten import PathStep, changed_at
from agentform.schema.validate import SchemaValidator

__all__ = ["way_below", "with_list_rules"]


def way_below(path: Path, place: str) -> Path | None:
    """The way from a path to a place at or below it, given as a JSON Pointer."""
    steps = steps_of(place)
    return steps[len(path) :] if steps[: len(path)] == path else None


def with_list_rules(schema: Mapping[str, JsonValue] | bool, value: JsonValue, path: Sequence[str]) -> SchemaDict | None:
    """The schema for `value` to be written again, whose list at `path` breaks `uniqueItems` or `contains`.

    `None` where there is no such list, or no room for another one.
    """
    steps: list[PathStep] = []
    here: Any = value
    for key in path:
        if isinstance(here, Mapping) and key in here:
            steps.append(tuple([*here][: [*here].index(key) + 1]))
            here = here[key]
        elif isinstance(here, list) and key.isdigit() and int(key) < len(here):
            steps.append(int(key))
            here = here[int(key)]
        else:
            return None
    if not isinstance(here, list):
        return None
    definitions: Any = {} if isinstance(schema, bool) else schema.get("$defs", {})
    return changed_at(schema, tuple(steps), lambda node: _kept(node, here, definitions))


def _kept(node: SchemaDict, items: list[Any], definitions: Mapping[str, Any]) -> SchemaDict | None:
    """What is asked of the list, with the items that may stay as constants and room for those that are missing."""
    if "prefixItems" in node:
        return None
    kept = list({equality(item): item for item in items}.values()) if node.get("uniqueItems") else list(items)
    wanted, missing = node.get("contains"), 0
    holds = [False] * len(kept)
    if wanted is not None:
        validator = SchemaValidator({**_object(wanted), "$defs": definitions})
        holds = [not validator.check(item) for item in kept]
        missing = max(0, int(node.get("minContains", 1)) - sum(holds))
    kept = _within(kept, holds, node.get("maxContains", len(kept)), node.get("maxItems", math.inf) - missing)
    asked = [{"const": item} for item in kept] + [{"allOf": [node.get("items", True), wanted]}] * missing
    if not missing and len(asked) < node.get("minItems", 0):
        return None
    rest = {key: part for key, part in node.items() if key not in ("contains", "minContains", "maxContains")}
    least = max(len(asked), int(node.get("minItems", 0)))
    return {**rest, "prefixItems": asked, "minItems": least, "maxItems": least}


def _object(schema: Any) -> SchemaDict:
    return schema if isinstance(schema, dict) else ({} if schema else {"not": {}})


def _within(items: list[Any], holds: list[bool], most_holding: float, most: float) -> list[Any]:
    """The first items, at most so many for which it holds, and so many of all; those for which it holds go first."""
    holding = [at for at, counts in enumerate(holds) if counts]
    others = [at for at, counts in enumerate(holds) if not counts]
    ranked = [*holding[: int(most_holding)], *others]
    kept = ranked if most == math.inf else ranked[: max(0, int(most))]
    return [items[at] for at in sorted(kept)]
