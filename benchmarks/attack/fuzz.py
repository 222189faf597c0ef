"""Random request bodies that know the API's schema: nearly right, so that they get far."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from typing import Any, cast

from agentform.serve.chat_fields import ChatFields
from agentform.serve.decision_fields import DecisionFields
from agentform.serve.systemone_fields import SystemOneFields

__all__ = ["PATHS", "random_body"]

PATHS = {"/v1/chat/completions": ChatFields, "/v1/decisions": DecisionFields, "/v1/systemone": SystemOneFields}
_TEXTS = [
    "",
    "a",
    "Hi.",
    "é名",
    "\ud800",
    "\x00",
    "<|im_end|>",
    "x" * 300,
    "^(a+)+$",
    "\\u{110000}",
    "$ref",
    "#/$defs/A",
]
_NUMBERS = [0, 1, -1, 2, 0.5, 1e-38, 1e308, 2**63, 10**30, True, 1.5]
_KEYWORDS = ["type", "enum", "properties", "items", "anyOf", "pattern", "minLength", "maximum", "const", "required"]
_TYPES = ["object", "array", "string", "integer", "number", "boolean", "null"]
_LEFT_OUT = 0.6
_WRONG = 0.03


def random_body(dice: random.Random, path: str, model: str) -> bytes:
    """A body for `path`, most of the time with what it needs, seldom with something else somewhere."""
    schema = PATHS[path].model_json_schema()
    made = _Maker(dice, schema.get("$defs", {})).object_of(schema, 0)
    made["model"] = model
    if path.endswith("completions"):
        made |= {"max_tokens": dice.choice([1, 2, 3]), "n": None, "stream": dice.choice([None, False, True])}
        made.pop("max_completion_tokens", None)
        made["reasoning_effort"] = "none"
        if dice.random() < 0.9:
            for name in ("audio", "prediction", "moderation", "web_search_options", "functions", "function_call"):
                made.pop(name, None)
            if not made["stream"]:
                made.pop("stream_options", None)
    return json.dumps(made).encode()


class _Maker:
    """Values for JSON Schemas as pydantic writes them."""

    def __init__(self, dice: random.Random, definitions: Mapping[str, Any]) -> None:
        self._dice = dice
        self._definitions = definitions

    def object_of(self, schema: Mapping[str, Any], depth: int) -> dict[str, Any]:
        """An object with what is required, and some of the rest."""
        needed = schema.get("required", ())
        kept = {
            name: inner
            for name, inner in schema.get("properties", {}).items()
            if name in needed or self._dice.random() > _LEFT_OUT
        }
        return {name: self._named(name, inner, depth + 1) for name, inner in kept.items()}

    def _named(self, name: str, schema: Mapping[str, Any], depth: int) -> Any:
        if name in ("parameters", "schema"):
            return {"type": "object", "properties": {"a": self._schema(0), "b": self._schema(0)}}
        if name == "name" and self._dice.random() < 0.9:
            return self._dice.choice(["f", "g", "look_up"])
        if name in ("tool_call_id", "id", "call_id"):
            return "c"
        if name == "arguments":
            return self._dice.choice(["{}", '{"a": 1}', "[", '{"a":' * 499 + "1" + "}" * 499])
        return self._value(schema, depth)

    def _value(self, schema: Mapping[str, Any], depth: int) -> Any:
        if self._dice.random() < _WRONG:
            return self._anything(0)
        if "$ref" in schema:
            return self._value(self._definitions[schema["$ref"].rpartition("/")[2]], depth)
        for word in ("anyOf", "oneOf"):
            if word in schema:
                return self._value(self._dice.choice(schema[word]), depth)
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return self._dice.choice(schema["enum"])
        return self._of_type(schema, depth)

    def _of_type(self, schema: Mapping[str, Any], depth: int) -> Any:
        match schema.get("type"):
            case "object" if "properties" in schema:
                return self.object_of(schema, depth)
            case "array":
                least = schema.get("minItems", 0)
                return [self._value(schema["items"], depth + 1) for _ in range(least + self._dice.randrange(3))]
            case "string":
                return self._dice.choice(_TEXTS)
            case "integer" | "number":
                return self._dice.choice(_NUMBERS)
            case "boolean":
                return self._dice.random() < 0.5
            case "null":
                return None
            case _:
                return self._anything(0)

    def _schema(self, depth: int) -> dict[str, Any]:
        """A JSON Schema, not always a good one."""
        made: dict[str, Any] = {}
        for word in self._dice.sample(_KEYWORDS, self._dice.randrange(4)):
            match word:
                case "type":
                    made[word] = self._dice.choice(_TYPES)
                case "properties" if depth < 3:
                    made[word] = {name: self._schema(depth + 1) for name in ("a", "b")}
                case "items" if depth < 3:
                    made[word] = self._schema(depth + 1)
                case "anyOf" if depth < 3:
                    made[word] = [self._schema(depth + 1) for _ in range(2)]
                case "enum" | "required":
                    made[word] = self._dice.sample(_TEXTS, 2)
                case _:
                    made[word] = self._dice.choice([*_TEXTS, *_NUMBERS])
        return made

    def _anything(self, depth: int) -> Any:
        kind = self._dice.randrange(6 if depth < 3 else 4)
        if kind == 4:
            return [self._anything(depth + 1) for _ in range(self._dice.randrange(4))]
        if kind == 5:
            return {self._dice.choice(_TEXTS): self._anything(depth + 1) for _ in range(self._dice.randrange(4))}
        return cast("Any", [None, True, self._dice.choice(_NUMBERS), self._dice.choice(_TEXTS)][kind])
