"""How a server is told of a JSON Schema that it has to write by, and whether it does: found by asking.

There is no sign of it: some servers refuse a field that they do not know, others pass over it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias, get_args

from agentform.errors import EngineError, EngineUnauthorized, EngineUnavailable, GrammarError, InvalidRequest

__all__ = ["CHAT", "SCHEMA_WAYS", "SchemaWay", "find_schema_way", "schema_field"]

CHAT = "/v1/chat/completions"

SchemaWay: TypeAlias = Literal["response_format", "structured_outputs", "guided_json", "text"]
"""The field that carries the schema; "text": the server follows none, so the model is only told of it."""
SCHEMA_WAYS: tuple[SchemaWay, ...] = get_args(SchemaWay)
_WORD = "qvxk"
_TRIED: Mapping[str, Any] = {
    "type": "object",
    "properties": {_WORD: {"type": "string", "enum": [_WORD]}},
    "required": [_WORD],
    "additionalProperties": False,
}
_TRIED_TOKENS = 256
"""Enough for a short thought before the value, too."""


def schema_field(way: SchemaWay, schema: Any) -> dict[str, Any]:
    """What a request holds for the server to write by the schema."""
    match way:
        case "response_format":
            named = {"name": "value", "schema": schema}
            return {"response_format": {"type": "json_schema", "json_schema": named}}
        case "structured_outputs":
            return {"structured_outputs": {"json": schema}}
        case "guided_json":
            return {"guided_json": schema}
        case "text":
            return {}


def find_schema_way(post: Callable[[str, dict[str, Any]], Any], model: str) -> SchemaWay:
    """The first way that makes the server write what nobody would write otherwise.

    Raises:
        EngineUnavailable, EngineUnauthorized: the server cannot be asked.
    """
    for way in SCHEMA_WAYS:
        if way == "text" or _is_followed(post, model, way):
            return way
    raise AssertionError("the last way asks nothing of the server")


def _is_followed(post: Callable[[str, dict[str, Any]], Any], model: str, way: SchemaWay) -> bool:
    asked = [{"role": "user", "content": "Say hello."}]
    body = {"model": model, "messages": asked, "max_tokens": _TRIED_TOKENS, "temperature": 0.0}
    try:
        reply = post(CHAT, {**body, **schema_field(way, _TRIED)})
        return bool(json.loads(reply["choices"][0]["message"]["content"]) == {_WORD: _WORD})
    except (EngineUnavailable, EngineUnauthorized):
        raise
    except (InvalidRequest, GrammarError, EngineError, LookupError, TypeError, ValueError):
        return False
