"""Requests of the engine seam as chat completions.

Few servers go on in the middle of an assistant's message, so what it begins with is shown as a message of its own, and
the user asks for what comes next.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, cast

from agentform.errors import GrammarError
from agentform.grammar.spec import GrammarSpec
from agentform.json_schema.keywords import Schema, SchemaDict
from agentform.json_schema.walk import map_subschemas
from agentform.runtime.engine import GenerateRequest, Sampling
from agentform.runtime.openai_server.schema_ways import SchemaWay, schema_field
from agentform.runtime.openai_server.transcript import read_transcript

__all__ = ["ChatRequest", "ask"]

_GO_ON = "Go on exactly where your last message ends. Repeat nothing of it."
_BY_SCHEMA = "Now write only JSON, without any other text, that follows this JSON Schema: "
_WRAPPED = "value"
_WRAPPING = re.compile(r'\s*\{\s*"value"\s*:\s*(.*?)\s*\}\s*', re.DOTALL)
_OPENED = re.compile(r'\A\s*\{\s*"value"\s*:\s*')
_AT_ROOT = ("#/$defs/", "#/definitions/")
_BLOCK = re.compile(r"```(?:json)?[ \t]*\n(.*?)\n?```", re.DOTALL)
_SEEDS = 1 << 31


@dataclass(frozen=True, kw_only=True)
class ChatRequest:
    """A request as the server gets it."""

    body: dict[str, Any]
    wrapped: bool = False
    """Whether the value is asked for as the only property of an object, since servers write objects."""
    fenced: bool = False
    """Whether the model may have put the value into a block of Markdown, since no grammar kept it from that."""

    @property
    def is_told_whole(self) -> bool:
        """Whether the value's text can be read off only once all is written."""
        return self.wrapped or self.fenced

    def begun_text(self, text: str) -> str:
        """What is there of the value's text where writing was cut off."""
        return _OPENED.sub("", text, count=1) if self.wrapped else text

    def value_text(self, text: str) -> str:
        """The value's JSON text out of all that was written; what is something else stays as it is."""
        if self.fenced and (block := _BLOCK.search(text)):
            text = block[1]
        inside = _WRAPPING.fullmatch(text) if self.wrapped else None
        return inside[1] if inside else text


def ask(request: GenerateRequest, *, model: str, way: SchemaWay) -> ChatRequest:
    """The body for a request.

    Raises:
        GrammarError: the grammar is no JSON Schema.
    """
    schema, wrapped = (None, False) if request.grammar is None else _schema(request.grammar)
    body = {
        "model": model,
        "messages": _messages(request, schema),
        "max_tokens": request.max_tokens,
        "stream": True,
        "stream_options": {"include_usage": True},
        **_drawn_by(request.sampling),
        **(schema_field(way, schema) if schema is not None else {}),
    }
    return ChatRequest(body=body, wrapped=wrapped, fenced=schema is not None and way == "text")


def _schema(grammar: GrammarSpec) -> tuple[Schema, bool]:
    if grammar.kind != "json_schema":
        raise GrammarError(
            f"a server that speaks OpenAI's interface only writes by JSON Schemas, and not by a grammar of the kind "
            f"{grammar.kind!r}; engines on torch, llama.cpp and SGLang do"
        )
    schema: Any = json.loads(grammar.text)
    if isinstance(schema, dict) and schema.get("type") == "object":
        return schema, False
    return _in_object(schema), True


def _in_object(schema: Any) -> dict[str, Any]:
    """Definitions stay at the root, where references look for them; others find the schema where it is now."""
    schema = _moved(schema)
    kept = {key: schema[key] for key in ("$defs", "definitions") if isinstance(schema, dict) and key in schema}
    value = {k: v for k, v in schema.items() if k not in kept} if isinstance(schema, dict) else schema
    properties = {_WRAPPED: value}
    return {
        "type": "object",
        "properties": properties,
        "required": [_WRAPPED],
        "additionalProperties": False,
        **kept,
    }


def _moved(schema: Any) -> Any:
    if not isinstance(schema, dict):
        return schema
    made = map_subschemas(cast("SchemaDict", schema), lambda _, item: _moved(item))
    found = made.get("$ref")
    if isinstance(found, str) and found.startswith("#") and not found.startswith(_AT_ROOT):
        made["$ref"] = f"#/properties/{_WRAPPED}{found[1:]}"
    return made


def _messages(request: GenerateRequest, schema: Schema | None) -> list[dict[str, str]]:
    read = read_transcript(request.prompt_ids)
    messages = [{"role": role, "content": text} for role, text in read.messages]
    if read.begun.strip():
        messages.append({"role": "assistant", "content": read.begun})
    wanted = _BY_SCHEMA + _json(schema) if schema is not None else _GO_ON if read.begun.strip() else ""
    if not wanted:
        return messages
    if messages and messages[-1]["role"] == "user":  # templates may want roles in turn
        messages[-1]["content"] += f"\n\n{wanted}"
    else:
        messages.append({"role": "user", "content": wanted})
    return messages


def _drawn_by(sampling: Sampling) -> dict[str, Any]:
    """What is not OpenAI's own is said only where it was asked for: some servers refuse what they do not know."""
    fields = {"temperature": sampling.temperature, "top_p": sampling.top_p, "seed": sampling.seed % _SEEDS}
    further = {
        "top_k": (sampling.top_k, 0),
        "min_p": (sampling.min_p, 0.0),
        "repetition_penalty": (sampling.repetition_penalty, 1.0),
        "frequency_penalty": (sampling.frequency_penalty, 0.0),
        "presence_penalty": (sampling.presence_penalty, 0.0),
    }
    return {**fields, **{name: value for name, (value, usual) in further.items() if value != usual}}


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
